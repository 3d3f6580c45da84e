package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// PageSize is the most that the contract gives at once.
const PageSize = 200

// List is a list of the API, of one page or of many read on.
type List[T any] struct {
	Items []T
	Raw   json.RawMessage // the same document, as if it had been one page
	More  bool
}

type Page struct {
	// Of sums: what they are summed by, and of which period.
	By         string            `json:"by,omitempty"`
	From       json.RawMessage   `json:"from,omitempty"`
	To         json.RawMessage   `json:"to,omitempty"`
	Items      []json.RawMessage `json:"items"`
	NextCursor *string           `json:"next_cursor,omitempty"`
}

// ReadAll reads up to limit items; 0 reads to the end.
func ReadAll[T any](ctx context.Context, c *Client, limit int, send func(ctx context.Context, size *int, cursor *string) (*http.Response, error)) (List[T], error) {
	all := Page{Items: []json.RawMessage{}}
	for {
		size := PageSize
		if limit > 0 {
			size = min(size, limit-len(all.Items))
		}
		got, err := Send[Page](ctx, c, func(ctx context.Context) (*http.Response, error) { return send(ctx, &size, all.NextCursor) })
		if err != nil {
			return List[T]{}, err
		}
		items := append(all.Items, got.Value.Items...)
		all = got.Value
		all.Items = items
		if all.NextCursor == nil || *all.NextCursor == "" || limit > 0 && len(all.Items) >= limit {
			break
		}
	}
	l := List[T]{Items: make([]T, len(all.Items)), More: all.NextCursor != nil && *all.NextCursor != ""}
	for i, item := range all.Items {
		if err := json.Unmarshal(item, &l.Items[i]); err != nil {
			return List[T]{}, fmt.Errorf("the response of the server does not match the contract: %w", err)
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return List[T]{}, fmt.Errorf("encoding list: %w", err)
	}
	l.Raw = raw
	return l, nil
}
