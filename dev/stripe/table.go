package stripe

// row is what a table holds, under its key.
type row interface{ key() string }

// table keeps rows in the order they came in, and knows which of them the
// journal has not seen.
type table[T row] struct {
	rows    []T
	at      map[string]int
	changed []string
}

func (t *table[T]) get(key string) (found T, ok bool) {
	n, ok := t.at[key]
	if !ok {
		return found, false
	}
	return t.rows[n], true
}

// put adds a row, or says that it was changed.
func (t *table[T]) put(r T) T {
	t.load(r)
	t.changed = append(t.changed, r.key())
	return r
}

// load is put for a row that the journal knows.
func (t *table[T]) load(rows ...T) {
	if t.at == nil {
		t.at = map[string]int{}
	}
	for _, r := range rows {
		if n, ok := t.at[r.key()]; ok {
			t.rows[n] = r
			continue
		}
		t.at[r.key()] = len(t.rows)
		t.rows = append(t.rows, r)
	}
}

// fresh are the rows that the journal has not seen, each once.
func (t *table[T]) fresh() (rows []T) {
	seen := map[string]bool{}
	for _, key := range t.changed {
		if !seen[key] {
			seen[key] = true
			rows = append(rows, t.rows[t.at[key]])
		}
	}
	return rows
}

// keep forgets the rows for which it is false.
func (t *table[T]) keep(wanted func(T) bool) {
	kept := table[T]{}
	for _, r := range t.rows {
		if wanted(r) {
			kept.load(r)
		}
	}
	*t = kept
}
