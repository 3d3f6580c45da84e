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
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after ids.SSHKey, n int) ([]identity.SSHKey, error) {
		return s.Identity.SSHKeys(ctx, r.caller, after, n)
	}, func(k identity.SSHKey) ids.SSHKey { return k.ID }, toSSHKey)
	if err != nil {
		return nil, err
	}
	return oapi.ListSshKeys200JSONResponse{
		Body:    oapi.SshKeyList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListSshKeys200ResponseHeaders{Link: l.link},
	}, nil
}

// CreateSshKey handles POST /api/v1/ssh-keys.
func (s *Server) CreateSshKey(ctx context.Context, req oapi.CreateSshKeyRequestObject) (oapi.CreateSshKeyResponseObject, error) {
	ctx, r := of(ctx)
	k, err := s.Identity.AddSSHKey(ctx, keep(r, func(k identity.SSHKey) identity.Reply {
		return reply(http.StatusCreated, toSSHKey(k), sshKeyAt(k), "")
	}), req.Body.Name, req.Body.PublicKey)
	if err != nil {
		return nil, err
	}
	return oapi.CreateSshKey201JSONResponse{Body: toSSHKey(k), Headers: oapi.CreateSshKey201ResponseHeaders{Location: sshKeyAt(k)}}, nil
}

// DeleteSshKey handles DELETE /api/v1/ssh-keys/{id}.
func (s *Server) DeleteSshKey(ctx context.Context, req oapi.DeleteSshKeyRequestObject) (oapi.DeleteSshKeyResponseObject, error) {
	ctx, r := of(ctx)
	if err := s.Identity.DeleteSSHKey(ctx, keep(r, nothing), ids.From[ids.SSHKey](req.Id)); err != nil {
		return nil, err
	}
	return oapi.DeleteSshKey204Response{}, nil
}

func sshKeyAt(k identity.SSHKey) string { return "/api/v1/ssh-keys/" + k.ID.String() }

func toSSHKey(k identity.SSHKey) oapi.SshKey {
	return oapi.SshKey{Id: k.ID.UUID, Name: k.Name, PublicKey: k.PublicKey, Fingerprint: k.Fingerprint, CreatedAt: k.CreatedAt.UTC()}
}
