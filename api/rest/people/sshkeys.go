package people

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

// ListSshKeys handles GET /api/v1/ssh-keys.
func (s *Handlers) ListSshKeys(ctx context.Context, req oapi.ListSshKeysRequestObject) (oapi.ListSshKeysResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.SSHKey, n int) ([]keys.SSHKey, error) {
		return s.Keys.SSHKeys(ctx, r.Caller, after, n)
	}, func(k keys.SSHKey) ids.SSHKey { return k.ID }, func(k keys.SSHKey) oapi.SshKey { return s.toSSHKey(r.Caller, k) })
	if err != nil {
		return nil, err
	}
	return oapi.ListSshKeys200JSONResponse{
		Body:    oapi.SshKeyList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListSshKeys200ResponseHeaders{Link: l.Link},
	}, nil
}

// CreateSshKey handles POST /api/v1/ssh-keys.
func (s *Handlers) CreateSshKey(ctx context.Context, req oapi.CreateSshKeyRequestObject) (oapi.CreateSshKeyResponseObject, error) {
	ctx, r := request.Of(ctx)
	k, err := s.Keys.AddSSHKey(ctx, response.Change(r, func(k keys.SSHKey) identity.Reply {
		return response.Reply(http.StatusCreated, s.toSSHKey(r.Caller, k), sshKeyAt(k), "")
	}), req.Body.Name, req.Body.PublicKey)
	if err != nil {
		return nil, err
	}
	return oapi.CreateSshKey201JSONResponse{Body: s.toSSHKey(r.Caller, k), Headers: oapi.CreateSshKey201ResponseHeaders{Location: sshKeyAt(k)}}, nil
}

// DeleteSshKey handles DELETE /api/v1/ssh-keys/{id}.
func (s *Handlers) DeleteSshKey(ctx context.Context, req oapi.DeleteSshKeyRequestObject) (oapi.DeleteSshKeyResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Keys.DeleteSSHKey(ctx, response.Change(r, nothing), ids.From[ids.SSHKey](req.Id)); err != nil {
		return nil, err
	}
	return oapi.DeleteSshKey204Response{}, nil
}

func sshKeyAt(k keys.SSHKey) string { return "/api/v1/ssh-keys/" + k.ID.String() }

func (s *Handlers) toSSHKey(by identity.Caller, k keys.SSHKey) oapi.SshKey {
	return oapi.SshKey{
		Id: k.ID.UUID, Urn: s.ownURN(by, "ssh-key", k.ID.String()), Name: k.Name, PublicKey: k.PublicKey, Fingerprint: k.Fingerprint,
		CreatedAt: k.CreatedAt.UTC(), UpdatedAt: k.CreatedAt.UTC(),
	}
}
