-- wrk: one signed DescribeInstances, sent over and over; figures as one JSON line. The request is in the file $BENCH_REQUEST:
-- header lines, an empty line, the body.
local headers, body = {}, nil
for line in io.lines(os.getenv("BENCH_REQUEST")) do
  if body then
    body = body .. line
  elseif line == "" then
    body = ""
  else
    local name, value = line:match("^([^:]+): (.*)$")
    headers[name] = value
  end
end
wrk.method, wrk.body, wrk.headers = "POST", body, headers

done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, "bytes": %d, "failed": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    summary.bytes, errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
