package allocation

import (
	"context"
	"net/http"
	"strconv"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// CreateSshCertificate handles POST /api/v1/allocations/{id}/ssh-certificate.
func (s *Handlers) CreateSshCertificate(ctx context.Context, req oapi.CreateSshCertificateRequestObject) (oapi.CreateSshCertificateResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	if err := s.Terminals.RejectUnrecorded(a.Tenant, a.Project); err != nil {
		return nil, err
	}
	at := "/api/v1/allocations/" + a.ID.String()
	l, err := s.Access.Login(ctx, response.Change(r, func(l allocation.Login) identity.Reply {
		return response.Reply(http.StatusCreated, toLogin(l), at, "")
	}), a, req.Body.PublicKey)
	if err != nil {
		return nil, err
	}
	return oapi.CreateSshCertificate201JSONResponse{Body: toLogin(l), Headers: oapi.CreateSshCertificate201ResponseHeaders{Location: at}}, nil
}

func toLogin(l allocation.Login) oapi.SshCertificate {
	made := oapi.SshCertificate{
		Certificate: l.Certificate, Serial: strconv.FormatUint(l.Serial, 10), ExpiresAt: l.ExpiresAt.UTC(), Via: oapi.SshCertificateViaRelay, Login: l.User, Simulated: l.Simulated,
	}
	if l.Host != "" {
		made.Via, made.Host, made.Port = oapi.SshCertificateViaDirect, &l.Host, &l.Port
	}
	if len(l.HostKeys) > 0 {
		made.HostKeys = &l.HostKeys
	}
	return made
}
