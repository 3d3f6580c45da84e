package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/money"
)

// seal is a checkpoint as it is kept.
type seal struct {
	account uuid.UUID
	upTo    int64
	balance money.Minor
	chain   []byte
	at      time.Time
	text    []byte
}

// link is an entry as its account's chain takes it.
type link struct {
	account  uuid.UUID
	id       int64
	amount   money.Minor
	currency string
	posted   time.Time
	text     []byte
}

// walk follows one account from its first entry, and holds each seal on the way
// against what it has found.
type walk struct {
	of     *Chain
	seals  []seal // still to come
	passed seal   // the last one
	tail   []byte // the chain since then
	since  money.Minor
	total  money.Minor
	kept   map[int64]string // heads that were kept elsewhere and must be met
	found  func(Fault)
}

// take goes on to an entry. They come in the order of their ids.
func (w *walk) take(l *link) {
	for len(w.seals) > 0 && w.seals[0].upTo < l.id {
		w.pass()
	}
	next := sha256.Sum256(append(bytes.Clone(w.tail), l.text...))
	w.tail = next[:]
	w.since, w.total = add(w.since, l.amount), add(w.total, l.amount)
	if l.currency != w.of.Currency && w.of.Name != "" {
		w.found(Fault{Wrong: CurrencyDiffers, After: l.id - 1, UpTo: l.id})
	}
	if len(w.seals) == 0 {
		w.of.Unsealed++
		if w.of.UnsealedSince.IsZero() || l.posted.Before(w.of.UnsealedSince) {
			w.of.UnsealedSince = l.posted.UTC()
		}
	}
}

// pass holds the next seal against the entries before it. It goes on from what is
// kept, and not from what should be: a fault is told where it is, and not in every
// seal that follows.
func (w *walk) pass() {
	s := w.seals[0]
	h := sha256.New()
	h.Write(w.passed.chain)
	h.Write(w.tail)
	h.Write(s.text)
	// A sum is wrong when neither all entries nor those since the seal before lead to it.
	sums := s.balance == w.total || s.balance == add(w.passed.balance, w.since)
	if !sums || !bytes.Equal(h.Sum(nil), s.chain) {
		w.found(Fault{Wrong: SealedChanged, After: w.passed.upTo, UpTo: s.upTo, SealedAt: s.at.UTC(), Minor: add(s.balance, -w.total)})
	}
	w.of.Seals, w.of.UpTo, w.of.Head = w.of.Seals+1, s.upTo, hex.EncodeToString(s.chain)
	if w.kept[s.upTo] == w.of.Head {
		delete(w.kept, s.upTo)
	}
	w.seals, w.passed, w.tail, w.since = w.seals[1:], s, nil, 0
}

// end passes what is left. A seal that nothing leads to is one of them.
func (w *walk) end() {
	for len(w.seals) > 0 {
		w.pass()
	}
	for upTo := range w.kept {
		w.found(Fault{Wrong: HeadLost, UpTo: upTo})
	}
}

// add is the nearest sum that fits: one that does not is wrong in any case.
func add(a, b money.Minor) money.Minor {
	sum, err := money.Add(a, b)
	switch {
	case err == nil:
		return sum
	case b > 0:
		return math.MaxInt64
	}
	return math.MinInt64
}
