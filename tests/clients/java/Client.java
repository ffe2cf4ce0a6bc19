// `java Client ADDRESS SERVICE_CONFIG FILE` uploads a document, searches, asks twice, verifies, and reads an error.
import com.google.gson.Gson;
import com.google.protobuf.ByteString;
import com.google.rpc.*;
import io.grpc.*;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import io.groundwire.api.answer.v1.*;
import io.groundwire.api.common.v1.*;
import io.groundwire.api.ingest.v1.*;
import io.groundwire.api.retrieve.v1.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.CompletableFuture;

class Upload implements StreamObserver<UploadDocumentResponse> {
  final CompletableFuture<IngestResult> result = new CompletableFuture<>();
  private final byte[] content;
  private final StreamObserver<UploadDocumentRequest> requests;
  Upload(IngestServiceGrpc.IngestServiceStub ingest, UploadHeader.Builder header, byte[] content) {
    this.content = content;
    requests = ingest.uploadDocument(this);
    header.setTotalBytes(content.length).setRequestId(UUID.randomUUID().toString());
    requests.onNext(UploadDocumentRequest.newBuilder().setHeader(header).build());
  }

  public void onNext(UploadDocumentResponse event) {
    if (event.hasResult()) result.complete(event.getResult());
    if (!event.hasAccepted()) return;
    for (int offset = (int) event.getAccepted().getDurableOffset(); offset < content.length; offset += 1 << 20) {
      var data = ByteString.copyFrom(content, offset, Math.min(1 << 20, content.length - offset));
      var part = UploadPart.newBuilder().setOffset(offset).setData(data);
      requests.onNext(UploadDocumentRequest.newBuilder().setPart(part).build());
    }
    requests.onCompleted();
  }

  public void onError(Throwable error) { result.completeExceptionally(error); }
  public void onCompleted() {}
}

public class Client {
  public static void main(String[] arguments) throws Exception {
    var config = new Gson().fromJson(Files.readString(Path.of(arguments[1])), Map.class);
    var channel = ManagedChannelBuilder.forTarget(arguments[0]).usePlaintext().defaultServiceConfig(config).build();
    var create = CreateCollectionRequest.newBuilder().setCollection("tides").setRequestId(UUID.randomUUID().toString());
    CollectionServiceGrpc.newBlockingStub(channel).createCollection(create.build());
    var fields = DocumentFields.newBuilder().setCategory("science");
    var header = UploadHeader.newBuilder().setCollection("tides").setSourceUri("tides.md").setFields(fields);
    var upload = new Upload(IngestServiceGrpc.newStub(channel), header, Files.readAllBytes(Path.of(arguments[2])));
    System.out.println("chunks: " + upload.result.get().getCounts().getChunkCount());

    var options = RetrievalOptions.newBuilder().setFilter(Filter.newBuilder().setJson("{\"category\": \"science\"}"));
    var search = RetrieveRequest.newBuilder().setCollection("tides").setQuery("What causes tides?").setOptions(options);
    var searches = RetrieveServiceGrpc.newBlockingStub(channel);
    System.out.println("found: " + searches.retrieve(search.build()).getResults(0).getChunk().getSourceUri());

    var answers = AnswerServiceGrpc.newBlockingStub(channel);
    var start = CreateSessionRequest.newBuilder().setCollection("tides").setRequestId(UUID.randomUUID().toString());
    var ask = AskRequest.newBuilder().setSessionId(answers.createSession(start.build()).getSession().getSessionId());
    ask.setMessageId(UUID.randomUUID().toString()).setQuestion("What causes the tides of the sea?");
    var first = answers.ask(ask.build()).getAnswer();
    System.out.println("answer: " + first.getContent());
    ask.setMessageId(UUID.randomUUID().toString()).setQuestion("When is a spring tide?");
    answers.askStream(AskStreamRequest.newBuilder().setAsk(ask).build()).forEachRemaining(event ->
        System.out.println("delta: " + event.getEvent().getTextDelta().getText()));
    var checks = VerifyCitationsRequest.newBuilder().addAllCitations(first.getCitationsList()).build();
    System.out.println("verified: " + answers.verifyCitations(checks).getAllVerified());
    try {
      searches.retrieve(RetrieveRequest.newBuilder().setCollection("tides").build());
    } catch (StatusRuntimeException error) {
      for (var detail : StatusProto.fromThrowable(error).getDetailsList()) {
        if (detail.is(ErrorInfo.class)) System.out.println("reason: " + detail.unpack(ErrorInfo.class).getReason());
        if (detail.is(BadRequest.class)) System.out.println("fields: " + detail.unpack(BadRequest.class));
      }
    }
    channel.shutdownNow();
  }
}
