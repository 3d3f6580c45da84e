package middleware

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// authorise finds the project and decides whether the caller may call the operation there. It
// records the decision and its rule in the log line, the counter and the span.
func (s *Chain) authorise(c *gin.Context, r *request.Call) error {
	err := s.EnterProject(c, r)
	d := request.Decision{Rule: request.NoProjectRole}
	// Without a right, a caller does not learn which form the request must have.
	if err != nil && response.StatusOf(errs.CodeOf(err)) == http.StatusBadRequest {
		if denied := s.deniedInProjects(r); denied != nil {
			err = denied
		}
	}
	if err == nil {
		if d = s.Decide(r.Op, r.Caller); !d.Allowed {
			err = r.Op.Denied(r.Caller, d)
		}
	}
	r.Rule, r.Platform = d.Rule, d.Platform
	// A failed database query is not a decision, so it is not counted.
	if err == nil || response.StatusOf(errs.CodeOf(err)) < http.StatusInternalServerError {
		r.Op.Count(d.Allowed)
	}
	if span := trace.SpanFromContext(c.Request.Context()); span.IsRecording() {
		span.SetAttributes(attribute.String("gpuaas.authz.rule", d.Rule), attribute.Bool("gpuaas.authz.allowed", d.Allowed),
			attribute.String("gpuaas.tenant.id", r.Caller.Tenant.String()))
	}
	return err
}

// deniedInProjects returns the error of a caller who may call the operation in no project, whichever the request
// names.
func (s *Chain) deniedInProjects(r *request.Call) error {
	roles, err := s.Identity.ProjectRoles(r, r.Caller)
	if err != nil {
		return err
	}
	var d request.Decision
	for _, role := range append(roles, "") {
		in := r.Caller
		in.ProjectRole = role
		if d = s.Decide(r.Op, in); d.Allowed {
			return nil
		}
	}
	return r.Op.Denied(r.Caller, d)
}

// EnterProject sets the caller's project to the one that the request names, or to the only project
// of the tenant.
func (s *Chain) EnterProject(c *gin.Context, r *request.Call) error {
	if r.Op.Project == request.NoProject {
		return nil
	}
	asked, err := s.projectOf(c, r)
	if err != nil {
		return err
	}
	isProgram := r.Caller.ServiceAccount != (ids.ServiceAccount{})
	if isProgram && asked == "" {
		return nil // a service account belongs to one project
	}
	in, err := s.Identity.InProject(c.Request.Context(), r.Caller, asked)
	switch {
	case err == nil && isProgram && in.Project != r.Caller.Project:
		err = errs.New(errs.Forbidden, "this program belongs to another project")
	case err == nil:
		if in.Tenant != r.Caller.Tenant { // an administrator acts for a tenant and can read its rows
			r.Tenant = in.Tenant.String()
		}
		r.Caller = in
		return nil
	case response.StatusOf(errs.CodeOf(err)) >= http.StatusInternalServerError || isProgram:
	// No project is named or found: a role in the tenant, or on the platform, is enough.
	case asked == "" && r.Op.Project == request.MayProject && s.Decide(r.Op, r.Caller).Allowed:
		return nil
	// The caller has no role in this project, but its role in the tenant may be enough.
	case in.Project != (ids.Project{}) && s.Decide(r.Op, in).Allowed:
		r.Caller = in
		return nil
	}
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Code == errs.Forbidden {
		e = e.With("operation", r.Op.ID)
		if len(r.Op.AllowedRoles) > 0 {
			e = e.With("roles", r.Op.AllowedRoles)
		}
		return e
	}
	return err
}

// projectOf returns the project that the request names.
func (s *Chain) projectOf(c *gin.Context, r *request.Call) (string, error) {
	switch r.Op.Project {
	case request.NoProject, request.MayProject, request.MustProject:
	case request.PathProject:
		id, err := ids.Parse[ids.Project](c.Param("project_id"))
		if err != nil {
			return "", errs.Invalid("project_id", "is not a UUID")
		}
		return id.String(), nil
	case request.AccountProject:
		id, err := ids.Parse[ids.ServiceAccount](c.Param("service_account_id"))
		if err != nil {
			return "", errs.Invalid("service_account_id", "is not a UUID")
		}
		project, err := s.Keys.ProjectOfAccount(c.Request.Context(), r.Caller, id)
		return project.String(), err
	}
	named := first(c.Request.Header["X-Project-Id"])
	if !storable(named) {
		return "", errs.Invalid("X-Project-ID", "%s", unstorable)
	}
	return named, nil
}
