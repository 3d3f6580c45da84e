package rest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	cursorLives = 24 * time.Hour
	macSize     = 16
	expirySize  = 8
	defaultPage = 50
)

// cursors makes and reads places in lists. They are signed because what is in
// them goes into a query, and bound to their list and tenant because a place in
// one is nonsense in another.
type cursors struct {
	key   []byte
	clock clock.Clock
}

// seal writes a place in the list that the call is about.
func (c cursors) seal(r *call, place any) (string, error) {
	text, err := json.Marshal(place)
	if err != nil {
		return "", fmt.Errorf("writing a cursor: %w", err)
	}
	text = binary.BigEndian.AppendUint64(text, uint64(c.clock.Now().Add(cursorLives).Unix())) //nolint:gosec // not before 1970
	return base64.RawURLEncoding.EncodeToString(append(text, c.mac(r, text)...)), nil
}

// open reads what seal wrote for the same list. No cursor leaves place as it is.
func (c cursors) open(r *call, cursor *string, place any) error {
	if cursor == nil || *cursor == "" {
		return nil
	}
	refused := errs.New(errs.CursorInvalid, "the cursor belongs to another list, or is older than 24 hours").At("cursor").
		Try("start again without a cursor")
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(*cursor)
	if err != nil || len(sealed) < macSize+expirySize {
		return refused
	}
	text, mac := sealed[:len(sealed)-macSize], sealed[len(sealed)-macSize:]
	if !hmac.Equal(mac, c.mac(r, text)) {
		return refused
	}
	end := len(text) - expirySize
	expires := time.Unix(int64(binary.BigEndian.Uint64(text[end:])), 0) //nolint:gosec // ours, see above
	if !c.clock.Now().Before(expires) {
		return refused
	}
	if err := json.Unmarshal(text[:end], place); err != nil {
		return refused // an older release wrote it
	}
	return nil
}

func (c cursors) mac(r *call, text []byte) []byte {
	h := hmac.New(sha256.New, c.key)
	_, _ = h.Write([]byte(r.url.Path))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write(r.caller.Tenant.UUID[:])
	_, _ = h.Write(text)
	return h.Sum(nil)[:macSize]
}

// page cuts a list that was read with one item more than asked for. The extra
// item only says that there is a next page; place tells where that begins. Link
// is the header that leads there.
func page[T any](s *Server, r *call, limit int, items []T, place func(T) any) (cut []T, next, link *string, err error) {
	if len(items) <= limit {
		return items, nil, nil, nil
	}
	cut = items[:limit]
	cursor, err := s.cursors.seal(r, place(cut[limit-1]))
	if err != nil {
		return nil, nil, nil, err
	}
	q := r.url.Query()
	q.Set("cursor", cursor)
	to := "<" + r.url.Path + "?" + q.Encode() + `>; rel="next"`
	return cut, &cursor, &to, nil
}

func limitOf(asked *int) int {
	if asked == nil {
		return defaultPage
	}
	return *asked
}
