// Package recording stores what terminals print, as asciicast v2: output and sizes, and never input. Each recording has a key of
// its own, which is sealed under a data key. Its chunks are compressed and sealed with that key, so that a rotation seals one
// small value again, and the end of the row ends all chunks.
package recording

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Service is used by the role terminal, which writes, and by the role api, which reads.
type Service struct {
	DB pg.Pool
	// Seal has the data keys of recordings; nil in a role that does not open them.
	Seal   identity.Sealer
	Naming ids.Naming
	Clock  clock.Clock
	// Patience limits the attempts to store a chunk; zero means three seconds.
	Patience time.Duration
}

// Recording is one row of terminal_recordings. Its id is that of the session.
type Recording struct {
	ID            uuid.UUID
	Tenant        ids.Tenant
	Project       ids.Project
	Allocation    ids.Allocation
	Principal     uuid.UUID
	Required      bool
	Columns, Rows int
	Bytes         int64
	Duration      time.Duration
	Status        string // recording, complete, incomplete
	Incomplete    Failure
	CorrelationID string
	CreatedAt     time.Time
	UpdatedAt     time.Time
	EndedAt       *time.Time

	chunks int
	key    []byte // sealed
}

// URN names the recording in audit rows.
func (r Recording) URN(n ids.Naming) string {
	return n.Name(r.Tenant.String(), r.Project.String(), "recording", r.ID.String()).String()
}

// Filter selects recordings. A zero value selects all.
type Filter struct {
	Project    ids.Project
	Allocation uuid.UUID
	Principal  uuid.UUID
	After      uuid.UUID
	Limit      int
}

// List returns recordings, newest first.
func (s *Service) List(ctx context.Context, f Filter) ([]Recording, error) {
	return pg.List(ctx, s.DB, "recordings", selectRecordings, scan, f.Project, f.Allocation, f.Principal, f.After, f.Limit)
}

func scan(row pgx.CollectableRow) (r Recording, err error) {
	var ms int64
	var incomplete string
	err = row.Scan(&r.ID, &r.Tenant, &r.Project, &r.Allocation, &r.Principal, &r.Required, &r.Columns, &r.Rows, &r.key, &r.chunks, &r.Bytes, &ms, &incomplete,
		&r.CorrelationID, &r.CreatedAt, &r.UpdatedAt, &r.EndedAt, &r.Status)
	r.Duration, r.Incomplete = time.Duration(ms)*time.Millisecond, Failure(incomplete)
	return r, err
}

// Open records that a caller reads a recording, and returns a function that writes it. Nothing is read before the audit row is
// committed.
func (s *Service) Open(ctx context.Context, by audit.By, id uuid.UUID, project ids.Project) (func(context.Context, io.Writer) error, error) {
	r, err := pg.One(ctx, s.DB, "recording", selectRecording, scan, id, project)
	if err != nil {
		return nil, err
	}
	key, err := s.Seal.Open(ctx, r.key, keyAt(id))
	if err != nil {
		return nil, err
	}
	ring, err := ringOf(key)
	if err != nil {
		return nil, err
	}
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{
		Tenant: r.Tenant, By: by, Action: "terminal.recording_read", Target: r.URN(s.Naming),
		After: map[string]any{"allocation_id": r.Allocation, "principal_id": r.Principal, "output_bytes": r.Bytes},
	})
	if err := pg.Commit(ctx, s.DB, b, func() {}); err != nil {
		return nil, err
	}
	return func(ctx context.Context, to io.Writer) error { return s.copy(ctx, to, r, ring) }, nil
}

func (s *Service) copy(ctx context.Context, to io.Writer, r Recording, ring *envelope.Ring) error {
	if r.chunks == 0 { // nothing is stored yet
		var empty text
		empty.header(r.Columns, r.Rows, r.CreatedAt)
		if _, err := to.Write(empty.lines); err != nil {
			return fmt.Errorf("sending recording %s: %w", r.ID, err)
		}
	}
	for n := range r.chunks {
		var sealed []byte
		if err := s.DB.QueryRow(ctx, selectChunk, r.ID, n).Scan(&sealed); err != nil {
			return fmt.Errorf("reading part %d of recording %s: %w", n, r.ID, err)
		}
		text, err := open(ring, sealed, chunkAt(r.ID, n))
		if err != nil {
			return fmt.Errorf("opening part %d of recording %s: %w", n, r.ID, err)
		}
		if _, err := to.Write(text); err != nil {
			return fmt.Errorf("sending recording %s: %w", r.ID, err)
		}
	}
	return nil
}

const keyID = "recording"

func ringOf(key []byte) (*envelope.Ring, error) {
	return envelope.NewRing(map[string][]byte{keyID: key}, keyID)
}

func keyAt(id uuid.UUID) envelope.Place {
	return envelope.Place{Table: "terminal_recordings", Column: "key_enc", Row: id.String()}
}

func chunkAt(id uuid.UUID, number int) envelope.Place {
	return envelope.Place{Table: "terminal_recording_chunks", Column: "body", Row: id.String() + "/" + strconv.Itoa(number)}
}

// maxChunk limits the text of a chunk: what waits, and one message of which each byte is escaped.
const maxChunk = 2 << 20

var (
	encoder = sync.OnceValues(func() (*zstd.Encoder, error) { return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest)) })
	decoder = sync.OnceValues(func() (*zstd.Decoder, error) { return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxChunk)) })
)

func open(ring *envelope.Ring, sealed []byte, at envelope.Place) ([]byte, error) {
	packed, err := ring.Open(sealed, at)
	if err != nil {
		return nil, err
	}
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(packed, nil)
}
