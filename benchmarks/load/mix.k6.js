// The mix of `groundwire bench load` for k6: calls begin at a rate, whatever comes back.
//   k6 run -e ADDRESS=127.0.0.1:50051 -e RATE=20 -e DURATION=30s benchmarks/load/mix.k6.js
import { check } from 'k6';
import exec from 'k6/execution';
import grpc from 'k6/net/grpc';

const requests = JSON.parse(open('requests.json'));
const methods = Object.keys(requests);
const shares = { Retrieve: 8, Ask: 1, IngestDocument: 1 };
const rate = Number(__ENV.RATE || 20);
const client = new grpc.Client();
client.load(
  ['../../protos'],
  ...methods.map((method) => {
    const service = method.split('/')[0].split('.');
    const name = service.pop().replace(/([a-z])([A-Z])/g, '$1_$2').toLowerCase();
    return `${service.join('/')}/${name}.proto`;
  }),
);

const scenarios = {};
for (const method of methods) {
  const name = method.split('/')[1];
  scenarios[name] = {
    executor: 'constant-arrival-rate',
    rate: Math.max(1, Math.round((rate * shares[name]) / 10)),
    timeUnit: '1s',
    duration: __ENV.DURATION || '30s',
    preAllocatedVUs: 50,
    maxVUs: 1000,
    env: { METHOD: method },
  };
}

export const options = {
  scenarios,
  thresholds: {
    checks: ['rate>0.999'],
    'grpc_req_duration{scenario:Retrieve}': ['p(99)<500'],
    'grpc_req_duration{scenario:Ask}': ['p(99)<2000'],
  },
};

let isConnected = false;

export default function () {
  if (!isConnected) {
    client.connect(__ENV.ADDRESS || '127.0.0.1:50051', { plaintext: true });
    isConnected = true;
  }
  const request = { ...requests[__ENV.METHOD] };
  if ('source_uri' in request) {
    request.source_uri = `load/${exec.scenario.iterationInTest}.txt`;
    request.text = `${exec.scenario.iterationInTest}: ${request.text}`;
  }
  const metadata = __ENV.TOKEN ? { authorization: `Bearer ${__ENV.TOKEN}` } : {};
  const response = client.invoke(__ENV.METHOD, request, { metadata });
  check(response, { OK: (each) => each.status === grpc.StatusOK });
}
