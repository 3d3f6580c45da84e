package response

import (
	"github.com/gpuaas/gpuaas/api/rest/request"
)

// ListPage is one encoded page of a list.
type ListPage[V any] struct {
	Items      []V
	Next, Link *string
}

// List reads one page of a list. It reads one item more, which shows that there is another page. place
// returns the position after an item, and show encodes it.
func List[T, P, V any](cursors Cursors, r *request.Call, cursor *string, limit *int, read func(after P, limit int) ([]T, error), place func(T) P, show func(T) V) (l ListPage[V], err error) {
	var after P
	if err := cursors.Open(r, cursor, &after); err != nil {
		return l, err
	}
	n := PageSize(limit)
	all, err := read(after, n+1)
	if err != nil {
		return l, err
	}
	all, l.Next, l.Link, err = CutPage(cursors, r, n, all, func(v T) any { return place(v) })
	l.Items = make([]V, len(all))
	for i, v := range all {
		l.Items[i] = show(v)
	}
	return l, err
}
