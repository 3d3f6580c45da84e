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

// seal is a stored checkpoint.
type seal struct {
	account uuid.UUID
	upTo    int64
	balance money.Minor
	chain   []byte
	at      time.Time
	text    []byte
}

// link is the part of an entry that enters its account's chain.
type link struct {
	account  uuid.UUID
	id       int64
	amount   money.Minor
	currency string
	posted   time.Time
	text     []byte
}

// walk follows one account from its first entry, and compares each seal on the way with the entries.
type walk struct {
	chain    *Chain
	seals    []seal // not reached yet
	passed   seal   // the last one
	tail     []byte // the chain since then
	since    money.Minor
	total    money.Minor
	expected map[int64]string // heads that were stored elsewhere and must match
	found    func(Fault)
}

// addEntry adds the next entry. Entries arrive by ascending id.
func (w *walk) addEntry(l *link) {
	for len(w.seals) > 0 && w.seals[0].upTo < l.id {
		w.pass()
	}
	// Each hash covers the previous one, so a changed, removed or inserted entry changes all later hashes up to the seal.
	next := sha256.Sum256(append(bytes.Clone(w.tail), l.text...))
	w.tail = next[:]
	w.since, w.total = add(w.since, l.amount), add(w.total, l.amount)
	if l.currency != w.chain.Currency && w.chain.Name != "" {
		w.found(Fault{Wrong: CurrencyDiffers, After: l.id - 1, UpTo: l.id})
	}
	if len(w.seals) == 0 {
		w.chain.Unsealed++
		if w.chain.UnsealedSince.IsZero() || l.posted.Before(w.chain.UnsealedSince) {
			w.chain.UnsealedSince = l.posted.UTC()
		}
	}
}

// pass compares the next seal with the entries before it. It continues from the stored hash and not from
// the expected one. A fault is therefore reported once, and not again for every later seal.
func (w *walk) pass() {
	s := w.seals[0]
	h := sha256.New()
	h.Write(w.passed.chain)
	h.Write(w.tail)
	h.Write(s.text)
	// Two sums are accepted: that of all entries, and that of the entries since the previous seal. A wrong balance in one
	// seal would otherwise be reported again for every later seal.
	sums := s.balance == w.total || s.balance == add(w.passed.balance, w.since)
	if !sums || !bytes.Equal(h.Sum(nil), s.chain) {
		w.found(Fault{Wrong: SealedChanged, After: w.passed.upTo, UpTo: s.upTo, SealedAt: s.at.UTC(), Minor: add(s.balance, -w.total)})
	}
	w.chain.Seals, w.chain.UpTo, w.chain.Head = w.chain.Seals+1, s.upTo, hex.EncodeToString(s.chain)
	if w.expected[s.upTo] == w.chain.Head {
		delete(w.expected, s.upTo)
	}
	w.seals, w.passed, w.tail, w.since = w.seals[1:], s, nil, 0
}

// end compares the remaining seals. A seal after the last entry has no entries that lead to it, so its hash differs.
func (w *walk) end() {
	for len(w.seals) > 0 {
		w.pass()
	}
	for upTo := range w.expected {
		w.found(Fault{Wrong: HeadLost, UpTo: upTo})
	}
}

// add returns the sum, or the nearest representable one. A sum that overflows differs from every stored balance, so
// the fault is reported in any case.
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
