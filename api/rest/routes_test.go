package rest

import (
	"log/slog"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/services"
)

// Routes for people outside the contract. Any other route is an operation that
// the contract lacks.
var pagesOnly = map[request.Route]bool{
	{Method: "GET", Path: "/"}: true, {Method: "GET", Path: "/sign-in"}: true, {Method: "POST", Path: "/sign-in"}: true, {Method: "POST", Path: "/sign-out"}: true,
	{Method: "GET", Path: "/auth/callback"}: true, {Method: "GET", Path: "/payments/:id"}: true, {Method: "GET", Path: "/first-admin"}: true, {Method: "POST", Path: "/first-admin"}: true,
	{Method: "GET", Path: "/assets/first-admin.js"}: true, {Method: "HEAD", Path: "/assets/first-admin.js"}: true,
	{Method: "GET", Path: "/assets/style.css"}: true, {Method: "HEAD", Path: "/assets/style.css"}: true,
	{Method: "GET", Path: "/api/openapi.json"}: true, {Method: "HEAD", Path: "/api/openapi.json"}: true,
	{Method: "GET", Path: "/api/asyncapi.json"}: true, {Method: "HEAD", Path: "/api/asyncapi.json"}: true,
	{Method: "GET", Path: "/api/events"}: true, {Method: "HEAD", Path: "/api/events"}: true,
	{Method: "GET", Path: "/api/docs"}: true, {Method: "HEAD", Path: "/api/docs"}: true,
	{Method: "POST", Path: "/invitations/:id"}: true, {Method: "GET", Path: "/notifications/unsubscribe"}: true, {Method: "POST", Path: "/notifications/unsubscribe"}: true,
	{Method: "GET", Path: "/docs/reference/errors"}: true, {Method: "HEAD", Path: "/docs/reference/errors"}: true,
}

func TestRoutesAreTheContract(t *testing.T) {
	t.Parallel()

	published, err := ReadContract()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(published, Config{Services: &services.Services{}, CursorKeys: &envelope.Ring{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	served := map[request.Route]bool{}
	for _, r := range s.engine.Routes() {
		at := request.Route{Method: r.Method, Path: r.Path}
		served[at] = true
		if s.chain.Operation(r.Method, r.Path) == nil && !pagesOnly[at] {
			t.Errorf("%s %s is served and not in the contract", r.Method, r.Path)
		}
	}
	contract, err := request.OperationsOf(published.Document)
	if err != nil {
		t.Fatal(err)
	}
	for at := range contract {
		if !served[at] {
			t.Errorf("%s %s is in the contract and not served", at.Method, at.Path)
		}
	}
}
