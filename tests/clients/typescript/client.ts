// A client of groundwire in TypeScript: uploads a document, searches with a filter, asks with a follow-up, verifies the
// citations, and reads what an error says. Usage: node client.js ADDRESS SERVICE_CONFIG FILE
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import * as grpc from "@grpc/grpc-js";
import { BadRequest, ErrorInfo } from "./gen/google/rpc/error_details.js";
import { Status } from "./gen/google/rpc/status.js";
import * as answer from "./gen/groundwire/api/answer/v1/answer_service.js";
import { FilterOperator } from "./gen/groundwire/api/common/v1/filter.js";
import * as collection from "./gen/groundwire/api/ingest/v1/collection_service.js";
import * as ingest from "./gen/groundwire/api/ingest/v1/ingest_service.js";
import * as retrieve from "./gen/groundwire/api/retrieve/v1/retrieve_service.js";

const [address, config, file] = process.argv.slice(2);
const options = { "grpc.service_config": readFileSync(config, "utf8") };
const connect = <C>(Client: new (address: string, credentials: grpc.ChannelCredentials, options: object) => C) =>
  new Client(address, grpc.credentials.createInsecure(), options);
const collections = connect(collection.CollectionServiceClient);
const ingests = connect(ingest.IngestServiceClient);
const searches = connect(retrieve.RetrieveServiceClient);
const answers = connect(answer.AnswerServiceClient);

type Done<R> = (error: grpc.ServiceError | null, response: R) => void;
type Method<Q, R> = (request: Q, metadata: grpc.Metadata, options: grpc.CallOptions, done: Done<R>) => unknown;
const call = <Q, R>(client: grpc.Client, method: Method<Q, R>, request: Q) =>
  new Promise<R>((resolve, reject) => {
    const done: Done<R> = (error, response) => (error ? reject(error) : resolve(response));
    method.call(client, request, new grpc.Metadata(), {}, done);
  });

async function upload(header: ingest.DeepPartial<ingest.UploadHeader>, content: Buffer) {
  const stream = ingests.uploadDocument();
  const send = (message: ingest.DeepPartial<ingest.UploadDocumentRequest>) =>
    stream.write(ingest.UploadDocumentRequest.fromPartial(message));
  send({ header: { ...header, totalBytes: content.length, requestId: randomUUID() } });
  for await (const { accepted, result } of stream as AsyncIterable<ingest.UploadDocumentResponse>) {
    if (result) return result;
    if (!accepted) continue; // progress
    for (let offset = accepted.durableOffset; offset < content.length; offset += 1 << 20) {
      send({ part: { offset, data: content.subarray(offset, offset + (1 << 20)) } });
    }
    stream.end();
  }
}

const create = collection.CreateCollectionRequest.fromPartial({ collection: "tides", requestId: randomUUID() });
await call(collections, collections.createCollection, create);
const fields = { metadata: { year: { int64Value: 2024 } } };
const result = await upload({ collection: "tides", sourceUri: "tides.md", fields }, readFileSync(file));
console.log("chunks:", result?.counts?.chunkCount);

const recent = { field: "year", op: FilterOperator.FILTER_OPERATOR_GTE, values: [{ int64Value: 2020 }] };
const search = { collection: "tides", query: "What causes tides?", options: { filter: { condition: recent } } };
const { results } = await call(searches, searches.retrieve, retrieve.RetrieveRequest.fromPartial(search));
console.log("found:", results[0].chunk?.sourceUri, results[0].relevanceScore > 0);

const start = answer.CreateSessionRequest.fromPartial({ collection: "tides", requestId: randomUUID() });
const { session } = await call(answers, answers.createSession, start);
const ask = (question: string) =>
  answer.AskRequest.fromPartial({ sessionId: session!.sessionId, messageId: randomUUID(), question });
const first = (await call(answers, answers.ask, ask("What causes the tides of the sea?"))).answer!;
console.log("answer:", first.content);
const stream = answer.AskStreamRequest.fromPartial({ ask: ask("When is a spring tide?") });
for await (const { event } of answers.askStream(stream)) {
  if (event?.textDelta) console.log("delta:", event.textDelta.text);
}

const checks = answer.VerifyCitationsRequest.fromPartial({ citations: first.citations });
console.log("verified:", (await call(answers, answers.verifyCitations, checks)).allVerified);

const wrong = retrieve.RetrieveRequest.fromPartial({ collection: "tides", query: "" });
await call(searches, searches.retrieve, wrong).catch((error: grpc.ServiceError) => {
  const [packed] = error.metadata.get("grpc-status-details-bin") as Buffer[];
  for (const { typeUrl, value } of Status.decode(packed).details) {
    if (typeUrl.endsWith("google.rpc.ErrorInfo")) console.log("reason:", ErrorInfo.decode(value).reason);
    if (!typeUrl.endsWith("google.rpc.BadRequest")) continue;
    for (const each of BadRequest.decode(value).fieldViolations) console.log(`${each.field}: ${each.description}`);
  }
});
