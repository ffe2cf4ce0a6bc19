// `client ADDRESS SERVICE_CONFIG FILE` uploads a document, searches, asks twice, verifies, and reads an error.
package main

import (
	"context"
	"fmt"
	"os"

	answer "example.com/client/gen/groundwire/api/answer/v1"
	common "example.com/client/gen/groundwire/api/common/v1"
	ingest "example.com/client/gen/groundwire/api/ingest/v1"
	retrieve "example.com/client/gen/groundwire/api/retrieve/v1"
	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func upload(stream ingest.IngestService_UploadDocumentClient, header *ingest.UploadHeader, file *os.File) int32 {
	header.TotalBytes, header.RequestId = must(file.Stat()).Size(), uuid.NewString()
	stream.Send(&ingest.UploadDocumentRequest{Message: &ingest.UploadDocumentRequest_Header{Header: header}})
	for buffer := make([]byte, 1<<20); ; {
		switch event := must(stream.Recv()).Event.(type) { // says why a Send failed, too
		case *ingest.UploadDocumentResponse_Accepted:
			for offset := event.Accepted.DurableOffset; offset < header.TotalBytes; {
				size, _ := file.ReadAt(buffer, offset)
				part := &ingest.UploadPart{Offset: offset, Data: buffer[:size]}
				stream.Send(&ingest.UploadDocumentRequest{Message: &ingest.UploadDocumentRequest_Part{Part: part}})
				offset += int64(size)
			}
			stream.CloseSend()
		case *ingest.UploadDocumentResponse_Result:
			return event.Result.Counts.ChunkCount
		}
	}
}

func main() {
	ctx, config := context.Background(), string(must(os.ReadFile(os.Args[2])))
	conn := must(grpc.Dial(os.Args[1], grpc.WithInsecure(), grpc.WithDefaultServiceConfig(config)))
	create := &ingest.CreateCollectionRequest{Collection: "tides", RequestId: uuid.NewString()}
	must(ingest.NewCollectionServiceClient(conn).CreateCollection(ctx, create))
	fields, file := &common.DocumentFields{Category: "science"}, must(os.Open(os.Args[3]))
	header := &ingest.UploadHeader{Collection: "tides", SourceUri: "tides.md", Fields: fields}
	fmt.Println("chunks:", upload(must(ingest.NewIngestServiceClient(conn).UploadDocument(ctx)), header, file))
	options := &common.RetrievalOptions{Filter: &common.Filter{Form: &common.Filter_Json{Json: `{"category": "science"}`}}}
	search := &retrieve.RetrieveRequest{Collection: "tides", Query: "What causes tides?", Options: options}
	searches, answers := retrieve.NewRetrieveServiceClient(conn), answer.NewAnswerServiceClient(conn)
	fmt.Println("found:", must(searches.Retrieve(ctx, search)).Results[0].Chunk.SourceUri)
	start := &answer.CreateSessionRequest{Collection: "tides", RequestId: uuid.NewString()}
	session := must(answers.CreateSession(ctx, start)).Session.SessionId
	ask := func(question string) *answer.AskRequest {
		return &answer.AskRequest{SessionId: session, MessageId: uuid.NewString(), Question: question}
	}
	first := must(answers.Ask(ctx, ask("What causes the tides of the sea?"))).Answer
	fmt.Println("answer:", first.Content)
	events := must(answers.AskStream(ctx, &answer.AskStreamRequest{Ask: ask("When is a spring tide?")}))
	for event, err := events.Recv(); err == nil; event, err = events.Recv() {
		fmt.Println("delta:", event.Event.GetTextDelta().GetText())
	}
	checks := must(answers.VerifyCitations(ctx, &answer.VerifyCitationsRequest{Citations: first.Citations}))
	fmt.Println("verified:", checks.AllVerified)
	_, err := searches.Retrieve(ctx, &retrieve.RetrieveRequest{Collection: "tides"})
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			fmt.Println("reason:", detail.Reason)
		case *errdetails.BadRequest:
			fmt.Println("fields:", detail.FieldViolations)
		}
	}
}
