package rest

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// authorise finds the project and asks whether the caller may call the operation
// there. What was decided, and by which rule, goes to the log line, the counter
// and the span.
func (s *Server) authorise(c *gin.Context, r *call) error {
	err := s.enterProject(c, r)
	d := decision{rule: noProjectRole}
	if err == nil {
		if d = decide(r.op, r.caller); !d.allowed {
			err = r.op.denied(r.caller, d)
		}
	}
	r.rule, r.platform = d.rule, d.platform
	// A database that is away has decided nothing.
	if err == nil || statusOf(errs.CodeOf(err)) < http.StatusInternalServerError {
		r.op.count(d.allowed)
	}
	if span := trace.SpanFromContext(c.Request.Context()); span.IsRecording() {
		span.SetAttributes(attribute.String("gpuaas.authz.rule", d.rule), attribute.Bool("gpuaas.authz.allowed", d.allowed),
			attribute.String("gpuaas.tenant.id", r.caller.Tenant.String()))
	}
	return err
}

// enterProject makes the caller act in the project that is named, or in the
// tenant's only one.
func (s *Server) enterProject(c *gin.Context, r *call) error {
	if r.op.project == noProject {
		return nil
	}
	asked, err := s.projectAsked(c, r)
	if err != nil {
		return err
	}
	isProgram := r.caller.ServiceAccount != (ids.ServiceAccount{})
	if isProgram && asked == "" {
		return nil // it is in its project already
	}
	in, err := s.Identity.InProject(c.Request.Context(), r.caller, asked)
	switch {
	case err == nil && isProgram && in.Project != r.caller.Project:
		err = errs.New(errs.Forbidden, "this program belongs to another project")
	case err == nil:
		if in.Tenant != r.caller.Tenant { // an administrator acts for a tenant: its rows are what they see
			r.tenant = in.Tenant.String()
		}
		r.caller = in
		return nil
	case statusOf(errs.CodeOf(err)) >= http.StatusInternalServerError || isProgram:
	// No project is named or found: a role in the tenant, or on the platform, is enough.
	case asked == "" && r.op.project == mayProject && decide(r.op, r.caller).allowed:
		return nil
	// A project of the tenant, in which the caller is nothing but of the tenant.
	case in.Project != (ids.Project{}) && decide(r.op, in).allowed:
		r.caller = in
		return nil
	}
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Code == errs.Forbidden {
		e = e.With("operation", r.op.id)
		if len(r.op.mayBe) > 0 {
			e = e.With("roles", r.op.mayBe)
		}
		return e
	}
	return err
}

// projectAsked is the project that a request is about, as it names it.
func (s *Server) projectAsked(c *gin.Context, r *call) (string, error) {
	switch r.op.project {
	case noProject, mayProject, mustProject:
	case pathProject:
		id, err := ids.Parse[ids.Project](c.Param("project_id"))
		if err != nil {
			return "", errs.Invalid("project_id", "is not a UUID")
		}
		return id.String(), nil
	case accountProject:
		id, err := ids.Parse[ids.ServiceAccount](c.Param("service_account_id"))
		if err != nil {
			return "", errs.Invalid("service_account_id", "is not a UUID")
		}
		project, err := s.Identity.ProjectOfAccount(c.Request.Context(), r.caller, id)
		return project.String(), err
	}
	named := first(c.Request.Header["X-Project-Id"])
	if !storable(named) {
		return "", errs.Invalid("X-Project-ID", "%s", unstorable)
	}
	return named, nil
}
