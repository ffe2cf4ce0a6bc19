// A client of groundwire in Node.js: lists the services, ingests a text, asks a question, prints a citation.
// Usage: node client.mjs ADDRESS PROTO_FOLDER
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [address, protos] = process.argv.slice(2);
const files = ["ingest/v1/ingest", "ingest/v1/collection", "answer/v1/answer"].map((name) => `groundwire/api/${name}_service.proto`);
const definition = await loader.load(files, { includeDirs: [protos], keepCase: true, enums: String, defaults: true });
const api = grpc.loadPackageDefinition(definition).groundwire.api;
console.log("services:", Object.keys(definition).filter((name) => name.endsWith("Service")).sort().join(" "));

const connect = (Service) => new Service(address, grpc.credentials.createInsecure());
const collections = connect(api.ingest.v1.CollectionService);
const ingest = connect(api.ingest.v1.IngestService);
const answer = connect(api.answer.v1.AnswerService);
const call = (client, method, request) =>
  new Promise((resolve, reject) => {
    client[method](request, { deadline: Date.now() + 60_000 }, (error, response) =>
      error ? reject(error) : resolve(response));
  });

const text = "# Tides 🌊\n\nThe moon causes the tides of the sea. A spring tide happens when sun and moon stand in line.\n";
await call(collections, "CreateCollection", { collection: "node", profile: "PROFILE_DOCUMENTS" });
const { result } = await call(ingest, "IngestDocument", { collection: "node", source_uri: "tides.md", text });
console.log("ingested:", result.outcome, result.counts.chunk_count);

const { answer: found } = await call(answer, "Ask", { collection: "node", question: "What causes the tides of the sea?" });
const [citation] = found.citations;
const { start_byte, end_byte } = citation.span;
const quote = Buffer.from(text, "utf-8").subarray(start_byte, end_byte).toString("utf-8");
console.log("answer:", found.content);
console.log("citation:", citation.source_uri, start_byte, end_byte, JSON.stringify(citation.quote));
if (quote !== citation.quote) throw new Error("the quote is not the text at its span");
const { all_verified } = await call(answer, "VerifyCitations", { citations: found.citations });
console.log("verified:", all_verified);
