package response

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	cursorLives = 24 * time.Hour
	expirySize  = 8
	defaultPage = 50
)

// Cursors encodes and decodes positions in lists. A cursor is sealed, because its content becomes
// part of a query. It is valid only for its list with the same filters and tenant, because the
// position has no meaning in another list.
type Cursors struct {
	Keys  *envelope.Ring
	Clock clock.Clock
}

// seal encodes a position in the list of the request.
func (c Cursors) seal(r *request.Call, place any) (string, error) {
	text, err := json.Marshal(place)
	if err != nil {
		return "", fmt.Errorf("writing a cursor: %w", err)
	}
	text = binary.BigEndian.AppendUint64(text, uint64(c.Clock.Now().Add(cursorLives).Unix())) //nolint:gosec // not before 1970
	return base64.RawURLEncoding.EncodeToString(c.Keys.Seal(text, listOf(r))), nil
}

// Open reads a cursor of the same list. Without a cursor, place stays as it is.
func (c Cursors) Open(r *request.Call, cursor *string, place any) error {
	if cursor == nil || *cursor == "" {
		return nil
	}
	refused := errs.New(errs.CursorInvalid, "the cursor belongs to another list or to other filters, or is older than 24 hours").At("cursor").
		Try("start again without a cursor")
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(*cursor)
	if err != nil {
		return refused
	}
	text, err := c.Keys.Open(sealed, listOf(r))
	if err != nil || len(text) < expirySize {
		return refused
	}
	end := len(text) - expirySize
	expires := time.Unix(int64(binary.BigEndian.Uint64(text[end:])), 0) //nolint:gosec // ours, see above
	if !c.Clock.Now().Before(expires) {
		return refused
	}
	if err := json.Unmarshal(text[:end], place); err != nil {
		return refused // a cursor of an older release
	}
	return nil
}

// listOf returns the list that a cursor is bound to: the path, the filters with the project, and the tenant. The size of a page may
// change.
func listOf(r *request.Call) envelope.Place {
	filters := r.URL.Query()
	filters.Del("cursor")
	filters.Del("limit")
	return envelope.Place{Table: "cursors", Column: r.URL.Path + "?" + filters.Encode(), Row: r.Tenant + " " + r.Caller.Project.String()}
}

// CutPage cuts a list that was read with one item more than the limit. The extra item only shows that
// there is a next page, and place returns where it begins. Link is the header with its address.
func CutPage[T any](cursors Cursors, r *request.Call, limit int, items []T, place func(T) any) (cut []T, next, link *string, err error) {
	if len(items) <= limit {
		return items, nil, nil, nil
	}
	cut = items[:limit]
	next, link, err = NextPage(cursors, r, place(cut[limit-1]))
	if err != nil {
		return nil, nil, nil, err
	}
	return cut, next, link, nil
}

// NextPage returns the cursor of a position, and the header with the address of the page behind it.
func NextPage(cursors Cursors, r *request.Call, place any) (next, link *string, err error) {
	cursor, err := cursors.seal(r, place)
	if err != nil {
		return nil, nil, err
	}
	q := r.URL.Query()
	q.Set("cursor", cursor)
	to := "<" + r.URL.Path + "?" + q.Encode() + `>; rel="next"`
	return &cursor, &to, nil
}

// PageSize returns the limit of a list, or the default.
func PageSize(asked *int) int {
	if asked == nil {
		return defaultPage
	}
	return *asked
}
