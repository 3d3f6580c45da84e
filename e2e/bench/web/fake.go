package web

import (
	"context"
	"fmt"
)

// fake replaces the list of allocations and the stream of events in the page. The rows are copies of one allocation.
const fake = `
	const real = window.fetch;
	const row = (n) => ({id: "a" + n, urn: "core42:aicloud:-:t:p:allocation:a" + n, name: "row-" + n, status: "active", sku: "h100-sxm", gpus: 1, region: "eu-1", login: "u",
		price: {amount_minor: 249, currency: "EUR"}, cost: {amount_minor: n, currency: "EUR"}, labels: {}, version: 1, conditions: [], project_id: "p", user_id: "u", node_id: null,
		created_at: "2026-01-05T09:00:00Z", status_at: "2026-01-05T09:00:00Z", updated_at: "2026-01-05T09:00:00Z"});
	const items = Array.from({length: %d}, (_, n) => row(n));
	const json = (body) => new Response(JSON.stringify(body), {headers: {"Content-Type": "application/json"}});
	window.events = 0;
	const stream = () => new Response(new ReadableStream({start(out) {
		const text = new TextEncoder();
		out.enqueue(text.encode("retry: 2000\n\n"));
		window.emit = () => {
			const n = window.events++;
			const data = JSON.stringify({event_id: "e" + n, event_type: "provisioning.active", payload: {urn: items[n %% items.length].urn}});
			out.enqueue(text.encode("id: e" + n + "\nevent: provisioning.active\ndata: " + data + "\n\n"));
		};
	}}), {headers: {"Content-Type": "text/event-stream"}});
	window.fetch = (input, init) => {
		const path = new URL(input.url ?? input, location.origin).pathname;
		if (path === "/api/v1/events") return Promise.resolve(stream());
		if (path === "/api/v1/allocations") return Promise.resolve(json({items}));
		return real(input, init);
	};`

// openFake opens the list of allocations with a number of rows, and waits for the first.
func (b *browser) openFake(ctx context.Context, rows int) error {
	if err := b.before(ctx, fmt.Sprintf(fake, rows)); err != nil {
		return err
	}
	if err := b.open(ctx, "/portal/allocations"); err != nil {
		return err
	}
	return b.waits(ctx, `document.querySelectorAll("tbody tr").length > 1 && window.emit !== undefined`)
}
