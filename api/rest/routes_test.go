package rest

import (
	"log/slog"
	"testing"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/policies"
)

// What people see beside the contract. Whatever else answers is a call that
// nobody wrote down.
var pagesOnly = map[route]bool{
	{"GET", "/"}: true, {"GET", "/sign-in"}: true, {"POST", "/sign-in"}: true, {"POST", "/sign-out"}: true,
	{"GET", "/auth/callback"}: true, {"GET", "/payments/:id"}: true, {"GET", "/first-admin"}: true, {"POST", "/first-admin"}: true,
	{"GET", "/assets/first-admin.js"}: true, {"HEAD", "/assets/first-admin.js"}: true,
	{"GET", "/assets/style.css"}: true, {"HEAD", "/assets/style.css"}: true,
	{"GET", "/api/openapi.json"}: true, {"HEAD", "/api/openapi.json"}: true,
	{"GET", "/api/docs"}: true, {"HEAD", "/api/docs"}: true,
	{"GET", "/docs/reference/errors"}: true, {"HEAD", "/docs/reference/errors"}: true,
}

func TestRoutesAreTheContract(t *testing.T) {
	t.Parallel()

	s, err := New(Config{CursorKey: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	served := map[route]bool{}
	for _, r := range s.engine.Routes() {
		at := route{r.Method, r.Path}
		served[at] = true
		if s.operations[at] == nil && !pagesOnly[at] {
			t.Errorf("%s %s is served and not in the contract", r.Method, r.Path)
		}
	}
	for at := range s.operations {
		if !served[at] {
			t.Errorf("%s %s is in the contract and not served", at.method, at.path)
		}
	}
}

// Each operation is listed by name, and each name is an operation: what is "*"
// only was forgotten, and what is nowhere was renamed.
func TestEveryOperationHasRoles(t *testing.T) {
	t.Parallel()

	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"*": true}
	for _, op := range openapi.Operations(doc) {
		known[op.OperationID] = true
		who := allowed(op.OperationID)
		if who == 0 {
			t.Errorf("nobody may call %s", op.OperationID)
		}
		if public := op.Security != nil; public != (who&everyone != 0) {
			t.Errorf("%s: the contract and the roles disagree about a sign-in", op.OperationID)
		}
	}
	for _, r := range policies.Roles() {
		for _, id := range r.Operations {
			if !known[id] {
				t.Errorf("%s may call %s, which is not in the contract", r.Name, id)
			}
		}
		if bitsOf[r.Name] == 0 && r.Scope != "token" {
			t.Errorf("role %s has no bit: whoever has it may do nothing", r.Name)
		}
	}
}

// The switch has no default; this finds the code that fell through it.
func TestEveryCodeHasAStatus(t *testing.T) {
	t.Parallel()

	for _, code := range errs.All() {
		if n := statusOf(code); n == 500 && code != errs.Internal {
			t.Errorf("%s has no status of its own", code)
		}
	}
}
