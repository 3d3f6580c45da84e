package nodeapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
	"github.com/gpuaas/gpuaas/protocol"
)

type mountRing struct{ *envelope.Ring }

func (r mountRing) Open(_ context.Context, sealed []byte, at envelope.Place) ([]byte, error) {
	return r.Ring.Open(sealed, at)
}

// Only the node of an allocation receives the keys of its mounts, until the release is requested.
func TestMountKeysGoToTheNodeOfTheAllocation(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	ring, err := envelope.NewRing(map[string][]byte{"m": make([]byte, 32)}, "m")
	if err != nil {
		t.Fatal(err)
	}
	keys := &accesskey.Service{DB: h.db, MountSeal: mountRing{ring}}
	h.server.MountKeys = keys
	h.open()
	node, other := h.declare(), h.declare()
	own, foreign := h.join(node), h.join(other)
	allocation := ids.New[ids.Allocation]()
	h.do(func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		keys.QueueMounts(b, identity.Caller{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project]()}, allocation, node, []desired.Mount{{At: "data", ReadOnly: true}, {At: "out"}})
		return tx.SendBatch(t.Context(), b).Close()
	})
	post := func(p *peer, node ids.Node, allocation, body string) (int, string) {
		t.Helper()
		response, err := p.Post(h.url+fmt.Sprintf(protocol.PathMounts, node, allocation), "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	status, text := post(own, node, allocation.String(), `{}`)
	var got protocol.MountKeys
	if err := protocol.Strict(strings.NewReader(text), &got); status != http.StatusOK || err != nil || len(got.Keys) != 2 || got.Keys[0].At != "data" || !strings.HasPrefix(got.Keys[1].Secret, accesskey.SecretPrefix) {
		t.Errorf("%d %s, %v", status, text, err)
	}
	for name, c := range map[string]struct {
		peer       *peer
		node       ids.Node
		allocation string
		body       string
		want       int
	}{
		"another node":              {foreign, other, allocation.String(), `{}`, http.StatusNotFound},
		"in the name of the node":   {foreign, node, allocation.String(), `{}`, http.StatusForbidden},
		"without a certificate":     {h.stranger(), node, allocation.String(), `{}`, http.StatusUnauthorized},
		"another allocation":        {own, node, uuid.NewString(), `{}`, http.StatusNotFound},
		"no id":                     {own, node, "x", `{}`, http.StatusNotFound},
		"a body with unknown field": {own, node, allocation.String(), `{"path": "/"}`, http.StatusBadRequest},
	} {
		if status, text := post(c.peer, c.node, c.allocation, c.body); status != c.want || strings.Contains(text, accesskey.SecretPrefix) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	h.do(func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		accesskey.QueueMountsReleased(b, allocation, make([]desired.Mount, 2))
		return tx.SendBatch(t.Context(), b).Close()
	})
	if status, text := post(own, node, allocation.String(), `{}`); status != http.StatusNotFound {
		t.Errorf("after the request of a release: %d %s", status, text)
	}
}
