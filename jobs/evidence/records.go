package evidence

import (
	"encoding/json"
	"fmt"

	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
)

// most limits the records of one form in a part. An allocation of a year has fewer tasks and transitions.
const most = 10_000

// records contains the records of each part.
type records struct{ parts map[string][]any }

func newRecords() *records { return &records{map[string][]any{}} }

func (r *records) add(part string, record any) { r.parts[part] = append(r.parts[part], record) }

// limit states that a form has more records than a part may have.
type limit struct {
	Record string `json:"record"`
	Of     string `json:"of"`
	Most   int    `json:"most"`
}

// addAll adds records of one form. A full page may have been cut, which must not appear to be whole.
func addAll[T, R any](r *records, part, form string, all []T, view func(T) R) {
	for _, one := range all {
		r.add(part, view(one))
	}
	if len(all) >= most {
		r.add(part, limit{"limit", form, most})
	}
}

// list returns the parts in their sequence. A part without records is an empty list, so that it is not missing.
func (r *records) list() (parts []bundle.Part, err error) {
	for _, name := range bundle.Names() {
		all := r.parts[name]
		if all == nil {
			all = []any{}
		}
		text, err := json.Marshal(all)
		if err != nil {
			return nil, fmt.Errorf("encoding the part %s: %w", name, err)
		}
		parts = append(parts, bundle.Part{Name: name, Records: text})
	}
	return parts, nil
}
