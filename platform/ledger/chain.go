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

// addEntry adds the next entry. Entries arrive in id order.
func (w *walk) addEntry(l *link) {
	for len(w.seals) > 0 && w.seals[0].upTo < l.id {
		w.pass()
	}
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
	// A sum is wrong when neither all entries nor those since the seal before lead to it.
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

// end passes what is left. A seal that nothing leads to is one of them.
func (w *walk) end() {
	for len(w.seals) > 0 {
		w.pass()
	}
	for upTo := range w.expected {
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
