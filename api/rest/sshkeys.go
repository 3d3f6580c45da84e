package rest

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListSshKeys handles GET /api/v1/ssh-keys.
func (s *Server) ListSshKeys(ctx context.Context, req oapi.ListSshKeysRequestObject) (oapi.ListSshKeysResponseObject, error) {
	ctx, r := of(ctx)
	var after ids.SSHKey
	if err := s.cursors.open(r.op.id, req.Params.Cursor, &after); err != nil {
		return nil, err
	}
	limit := limitOf(req.Params.Limit)
	keys, err := s.Identity.SSHKeys(ctx, r.caller, after, limit+1)
	if err != nil {
		return nil, err
	}
	keys, next, link, err := page(s, r, limit, keys, func(k identity.SSHKey) any { return k.ID })
	if err != nil {
		return nil, err
	}
	items := make([]oapi.SshKey, len(keys))
	for i, k := range keys {
		items[i] = toSSHKey(k)
	}
	return oapi.ListSshKeys200JSONResponse{
		Body:    oapi.SshKeyList{Items: items, NextCursor: next},
		Headers: oapi.ListSshKeys200ResponseHeaders{Link: link},
	}, nil
}

// CreateSshKey handles POST /api/v1/ssh-keys.
func (s *Server) CreateSshKey(ctx context.Context, req oapi.CreateSshKeyRequestObject) (oapi.CreateSshKeyResponseObject, error) {
	ctx, r := of(ctx)
	k, err := s.Identity.AddSSHKey(ctx, keep(r, func(k identity.SSHKey) identity.Reply {
		return reply(http.StatusCreated, toSSHKey(k), sshKeyPath(k), "")
	}), req.Body.Name, req.Body.PublicKey)
	if err != nil {
		return nil, err
	}
	return oapi.CreateSshKey201JSONResponse{
		Body:    toSSHKey(k),
		Headers: oapi.CreateSshKey201ResponseHeaders{Location: sshKeyPath(k)},
	}, nil
}

// DeleteSshKey handles DELETE /api/v1/ssh-keys/{id}.
func (s *Server) DeleteSshKey(ctx context.Context, req oapi.DeleteSshKeyRequestObject) (oapi.DeleteSshKeyResponseObject, error) {
	ctx, r := of(ctx)
	if err := s.Identity.DeleteSSHKey(ctx, keep(r, func(struct{}) identity.Reply {
		return reply(http.StatusNoContent, nil, "", "")
	}), ids.From[ids.SSHKey](req.Id)); err != nil {
		return nil, err
	}
	return oapi.DeleteSshKey204Response{}, nil
}

func sshKeyPath(k identity.SSHKey) string { return "/api/v1/ssh-keys/" + k.ID.String() }

func toSSHKey(k identity.SSHKey) oapi.SshKey {
	return oapi.SshKey{Id: k.ID.UUID, Name: k.Name, PublicKey: k.PublicKey, Fingerprint: k.Fingerprint, CreatedAt: k.CreatedAt.UTC()}
}
