package desired

import (
	"fmt"
	"strings"
	"time"
)

// Annotations of an object about its own drift.
const (
	AnnotationDrift  = "gpuaas/drift"              // heal | warn | ignore
	AnnotationIgnore = "gpuaas/ignore-differences" // see IgnoredDifferences
)

// IgnoredDifference is one field whose drift an owner ignores until a time.
type IgnoredDifference struct {
	Pointer string // JSON pointer: /keys, /spec/cordoned, or a parent of it
	Owner   string
	Until   time.Time
}

// Covers reports whether a field (keys, spec.cordoned) is the pointer's field or below it.
func (i IgnoredDifference) Covers(field string) bool {
	at := strings.NewReplacer("/", ".", "~1", "/", "~0", "~").Replace(strings.TrimPrefix(i.Pointer, "/"))
	return at == "" || field == at || strings.HasPrefix(field, at+".")
}

// IgnoredDifferences parses the annotation. Its entries are separated by semicolons. Each has a
// field pointer, an owner and an end:
//
//	/keys owner=ada@example.com until=2026-12-01; /spec/cordoned owner=ops until=2026-12-01T18:00:00Z
//
// An entry without an owner or an end is an error: drift would otherwise stay hidden for ever.
func IgnoredDifferences(text string) ([]IgnoredDifference, error) {
	var all []IgnoredDifference
	for entry := range strings.SplitSeq(text, ";") {
		words := strings.Fields(entry)
		if len(words) == 0 {
			continue
		}
		i := IgnoredDifference{Pointer: words[0]}
		if !strings.HasPrefix(i.Pointer, "/") {
			return nil, fmt.Errorf("%q is no JSON pointer: it begins with a slash", i.Pointer)
		}
		for _, w := range words[1:] {
			if err := i.set(w); err != nil {
				return nil, err
			}
		}
		if i.Owner == "" || i.Until.IsZero() {
			return nil, fmt.Errorf("%s needs owner= and until=: drift is ignored by an owner and until a time", i.Pointer)
		}
		all = append(all, i)
	}
	return all, nil
}

func (i *IgnoredDifference) set(word string) (err error) {
	switch key, value, _ := strings.Cut(word, "="); key {
	case "owner":
		i.Owner = value
		return nil
	case "until":
		if i.Until, err = time.Parse(time.RFC3339, value); err != nil {
			i.Until, err = time.Parse(time.DateOnly, value)
		}
		if err != nil {
			return fmt.Errorf("%q is no time: write 2026-12-01 or 2026-12-01T18:00:00Z", value)
		}
		return nil
	default:
		return fmt.Errorf("%q is neither owner= nor until=", word)
	}
}
