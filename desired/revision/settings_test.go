package revision

import (
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestSettingsOfASource(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &Store{Store: &desired.Store{DB: db}}
	spec := SourceSpec{Name: "fleet", Repository: "file:///srv/fleet", Ref: "main", Dirs: []string{"."}, Settings: []byte(`{"forge": {"kind": "gitea"}}`)}
	if err := s.DeclareSources(t.Context(), DeclaredByServer, []SourceSpec{spec}); err != nil {
		t.Fatal(err)
	}
	got, err := s.SourceSettings(t.Context(), pgtest.As(t, db, "gpuaas_work"), "fleet")
	if err != nil || string(got) != string(spec.Settings) {
		t.Errorf("%s, %v", got, err)
	}
	if err := s.DeclareSources(t.Context(), DeclaredByServer, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fleet", "another"} {
		if _, err := s.SourceSettings(t.Context(), db, name); errs.CodeOf(err) != errs.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}
