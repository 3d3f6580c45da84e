// Package relayrequest owns the signed requests for streams: a terminal server inserts them, and the poll of the node
// receives them. A request belongs to no mailbox, because a node has one task per allocation and many streams.
package relayrequest

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// Request is a request for a stream.
type Request struct {
	Stream  ids.Task
	Node    ids.Node
	Expires time.Time
	Signed  protocol.Signed
}

// Store contains the requests that wait.
type Store struct{ DB pg.Queryer }

const (
	// sendAgain follows a response with the request after which the stream was not opened: the response was lost.
	sendAgain = 3 * time.Second
	// mostSent limits the requests of one response, so that it stays below the limit of the agent.
	mostSent = 64
)

// Insert adds a request, and deletes what has expired: of terminal servers that ended.
func (s Store) Insert(ctx context.Context, r Request) error {
	_, err := s.DB.Exec(ctx, insertRequest, r.Stream, r.Node, r.Signed.Kid, r.Signed.Body, r.Signed.Signature, r.Expires)
	if err != nil {
		return fmt.Errorf("requesting a stream: %w", err)
	}
	return nil
}

// Delete removes a request whose stream was opened or is not needed any more.
func (s Store) Delete(ctx context.Context, stream ids.Task) error {
	if _, err := s.DB.Exec(ctx, deleteRequest, stream); err != nil {
		return fmt.Errorf("deleting the request for a stream: %w", err)
	}
	return nil
}

// Next returns the requests of each node, oldest first, that it has not received within sendAgain. One statement serves all
// nodes whose polls were notified together.
func (s Store) Next(ctx context.Context, nodes ...ids.Node) (map[ids.Node][]protocol.Signed, error) {
	keys := make([]uuid.UUID, len(nodes))
	for i, n := range nodes {
		keys[i] = n.UUID
	}
	rows, err := s.DB.Query(ctx, sendRequests, keys, sendAgain, mostSent)
	if err != nil {
		return nil, fmt.Errorf("reading requests for streams: %w", err)
	}
	due := map[ids.Node][]protocol.Signed{}
	var node ids.Node
	var signed protocol.Signed
	_, err = pgx.ForEachRow(rows, []any{&node, &signed.Kid, &signed.Body, &signed.Signature}, func() error {
		due[node] = append(due[node], signed)
		signed = protocol.Signed{} // the bytes of the next row must not overwrite those of this one
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading requests for streams: %w", err)
	}
	return due, nil
}

const (
	insertRequest = `
		WITH expired AS (DELETE FROM relay_requests WHERE expires_at < now() - interval '1 minute')
		INSERT INTO relay_requests (stream_id, node_id, kid, body, signature, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`
	deleteRequest = `DELETE FROM relay_requests WHERE stream_id = $1`
	sendRequests  = `
		WITH due AS (
			SELECT r.stream_id FROM unnest($1::uuid[]) AS n (node_id), LATERAL (
				SELECT stream_id FROM relay_requests
				WHERE node_id = n.node_id AND expires_at > now() AND (sent_at IS NULL OR sent_at < now() - $2::interval)
				ORDER BY created_at LIMIT $3 FOR UPDATE SKIP LOCKED
			) AS r
		)
		UPDATE relay_requests SET sent_at = now() FROM due WHERE relay_requests.stream_id = due.stream_id
		RETURNING node_id, kid, body, signature`
)
