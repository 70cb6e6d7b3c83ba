/**
 * A scripted server and a client of it; both are closed after each test.
 */
import { afterEach } from "vitest";
import { type Client, type ConnectOptions, connect } from "../src/client.js";
import { type Behaviour, type SpeaksAs, startServer, stateless, stopServers } from "./mcp-over-http.js";

export const FORMS: SpeaksAs[] = ["frames", "events", "json"];

const clients: Client[] = [];

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
  stopServers();
});

export async function open(url: string, options: Partial<ConnectOptions> = {}): Promise<Client> {
  const client = await connect({ url, ...options });
  clients.push(client);
  return client;
}

/** A client of a stateless server whose tools/call behaves as given. */
export async function against(call: Behaviour, form: SpeaksAs = "frames", options: Partial<ConnectOptions> = {}) {
  const server = await startServer(stateless(call), form);
  return { server, client: await open(server.url, options) };
}

/** What a promise fails with. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it did not fail");
}
