// Follows receipts of a gateway with what node has built in: `node follow.mjs events|socket URL TOKEN COUNT`.
// It cuts its own connection again and again, comes back with its last id, and writes each position as a line.
import process from "node:process";

const [kind, url, token, count] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const wanted = Number(count);
let last = null;
let position = 0;
let cutAfter = 1;

function take(frame, begun) {
  if (frame.id) last = frame.id;
  if (frame.type === "ready") console.log(JSON.stringify({ resume: frame.payload.resume }));
  if (frame.type === "gap") console.log(JSON.stringify({ gap: frame.payload }));
  if (frame.type === "receipt") {
    position = frame.payload.position;
    begun.taken += 1;
    console.log(JSON.stringify({ position }));
  }
  // After one record, then after two, and so on: the cuts come at different places of a page.
  return position >= wanted || begun.taken >= cutAfter;
}

async function events() {
  const cut = new AbortController();
  const from = last === null ? "?from=oldest" : "";
  const more = last === null ? {} : { "Last-Event-ID": last };
  const answer = await fetch(`${url}/api/events${from}`, { headers: { ...headers, ...more }, signal: cut.signal });
  if (!answer.ok) throw new Error(`${answer.status}`);
  const begun = { taken: 0 };
  let text = "";
  for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data: "));
      if (data.length && take(JSON.parse(data.map((line) => line.slice(6)).join("\n")), begun)) return cut.abort();
    }
  }
}

async function socket() {
  const asked = { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: "{}" };
  const answer = await fetch(`${url}/api/tickets`, asked);
  if (!answer.ok) throw new Error(`${answer.status}`);
  const { ticket } = await answer.json();
  const from = last === null ? "from=oldest" : `lastEventId=${last}`;
  const stream = new WebSocket(`${url.replace("http", "ws")}/api/stream?ticket=${ticket}&${from}`);
  const begun = { taken: 0 };
  await new Promise((done) => {
    stream.onerror = stream.onclose = done;
    stream.onmessage = (message) => {
      if (begun.taken < cutAfter && position < wanted && take(JSON.parse(message.data), begun)) stream.close();
    };
  });
}

while (position < wanted) {
  try {
    await (kind === "events" ? events() : socket());
  } catch (fault) {
    // The broker is away: it is asked again.
    if (fault.name !== "AbortError") await new Promise((later) => setTimeout(later, 50));
  }
  cutAfter += 1;
}
process.exit(0);
