package rest

// listed is one page as it is shown.
type listed[V any] struct {
	items      []V
	next, link *string
}

// pageOf reads one page of a list, with one item more, which only says that there
// is another page. place tells where a page begins, show how an item looks.
func pageOf[T, P, V any](s *Server, r *call, cursor *string, limit *int, read func(after P, limit int) ([]T, error), place func(T) P, show func(T) V) (l listed[V], err error) {
	var after P
	if err := s.cursors.open(r, cursor, &after); err != nil {
		return l, err
	}
	n := limitOf(limit)
	all, err := read(after, n+1)
	if err != nil {
		return l, err
	}
	all, l.next, l.link, err = page(s, r, n, all, func(v T) any { return place(v) })
	l.items = make([]V, len(all))
	for i, v := range all {
		l.items[i] = show(v)
	}
	return l, err
}
