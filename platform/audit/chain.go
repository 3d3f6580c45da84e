package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// row is a record with all columns that its hash covers, sorted as in selectRows.
type row struct {
	xid    uint64
	id     uuid.UUID
	at     time.Time
	tenant ids.Tenant

	actor, action, target, correlation string
	before, after                      []byte // as PostgreSQL writes a jsonb; nil for none
	client                             Client
}

func (r *row) fields() []any {
	return []any{
		&r.xid, &r.id, &r.at, &r.tenant.UUID, &r.actor, &r.action, &r.target, &r.correlation, &r.before, &r.after,
		&r.client.Address, &r.client.UserAgent,
	}
}

// Forms of the hash of a row. The form of an old seal does not change, so that it stays valid.
const (
	withoutClient = 1
	withClient    = 2
)

type digest = [sha256.Size]byte

// sum returns the row's hash. A number has eight bytes, and a text follows its length, so that two
// different rows never have the same bytes. A time is a number of microseconds and therefore independent
// of the time zone. The form is that of the seal.
func (r *row) sum(form int) (d digest) {
	h := sha256.New()
	number(h, r.xid)
	h.Write(r.id[:])
	number(h, uint64(r.at.UnixMicro()))
	h.Write(r.tenant.UUID[:])
	for _, s := range []string{r.actor, r.action, r.target, r.correlation} {
		text(h, []byte(s))
	}
	for _, document := range [][]byte{r.before, r.after} {
		// None is not the same as an empty one.
		if document == nil {
			number(h, 0)
			continue
		}
		number(h, 1)
		text(h, document)
	}
	if form >= withClient {
		text(h, []byte(r.client.Address))
		text(h, []byte(r.client.UserAgent))
	}
	h.Sum(d[:0])
	return d
}

func number(h hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	h.Write(b[:])
}

func text(h hash.Hash, s []byte) {
	number(h, uint64(len(s)))
	h.Write(s)
}

// seal closes the rows of one tenant in one stretch of transactions.
type seal struct {
	upTo   uint64
	tenant ids.Tenant
	total  int64
	form   int
	rows   []byte // id and hash of each
	chain  digest
	at     time.Time
}

// perRow is the number of bytes that one row adds to a seal.
const perRow = len(uuid.UUID{}) + sha256.Size

func (s *seal) count() int64 { return int64(len(s.rows) / perRow) }

func (s *seal) add(r *row) {
	d := r.sum(s.form)
	s.rows = append(append(s.rows, r.id[:]...), d[:]...)
}

// chainAfter is the chain that leads on from the one before.
func (s *seal) chainAfter(before digest) (d digest) {
	h := sha256.New()
	h.Write(before[:])
	h.Write(s.tenant.UUID[:])
	number(h, s.upTo)
	number(h, uint64(s.total)) //nolint:gosec // the database allows no negative one
	if s.form != withoutClient {
		number(h, uint64(s.form)) //nolint:gosec // one of the two constants
	}
	h.Write(s.rows)
	h.Sum(d[:0])
	return d
}

// entries are the seal's rows by id.
func (s *seal) entries() map[uuid.UUID]digest {
	all := make(map[uuid.UUID]digest, s.count())
	for rest := s.rows; len(rest) >= perRow; rest = rest[perRow:] {
		all[uuid.UUID(rest[:16])] = digest(rest[16:perRow])
	}
	return all
}

// first is the first row of the seal that is in the set.
func (s *seal) first(among map[uuid.UUID]digest) uuid.UUID {
	for rest := s.rows; len(rest) >= perRow; rest = rest[perRow:] {
		id := uuid.UUID(rest[:16])
		if _, ok := among[id]; ok {
			return id
		}
	}
	return uuid.Nil
}
