package change

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// ListPolicies handles GET /api/v1/admin/policies.
func (s *Handlers) ListPolicies(ctx context.Context, req oapi.ListPoliciesRequestObject) (oapi.ListPoliciesResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]change.PolicyKey, error) {
		return s.Changes.Policies(ctx, request.Or(req.Params.Prefix, ""), after, n)
	}, func(k change.PolicyKey) string { return k.Name }, toPolicyKey)
	if err != nil {
		return nil, err
	}
	return oapi.ListPolicies200JSONResponse{
		Body:    oapi.PolicyList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListPolicies200ResponseHeaders{Link: l.Link},
	}, nil
}

// PutPolicy handles PUT /api/v1/admin/policies/{key}.
func (s *Handlers) PutPolicy(ctx context.Context, req oapi.PutPolicyRequestObject) (oapi.PutPolicyResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, false)
	switch {
	case err != nil:
		return nil, err
	case req.Params.IfNoneMatch == nil:
	case req.Params.IfMatch != nil:
		return nil, errs.Invalid("If-None-Match", "excludes If-Match")
	default:
		version = change.Absent
	}
	if _, known := policies.Define(req.Key); !known {
		return nil, errs.New(errs.NotFound, "no policy key is named %q", req.Key)
	}
	sent, err := middleware.DecodeExact(r.Body)
	if err != nil {
		return nil, err
	}
	body, _ := sent.(map[string]any) // was validated against the contract
	scope := policies.Scope(request.Or(req.Body.Scope, string(policies.Platform)))
	value, fault := policies.Check(req.Key, string(scope), body["value"])
	switch {
	case fault == nil:
	case fault.Code == errs.PolicyNotInForce:
		return nil, fault.Coded("")
	default:
		return nil, errs.Invalid(fault.Field, "%s", fault.Message).Try("use %s", fault.Expected)
	}
	k, err := s.Changes.SetPolicy(ctx, response.Change(r, func(k change.PolicyKey) identity.Reply {
		return response.Reply(http.StatusOK, toPolicyKey(k), "", "")
	}), req.Key, scope, value, version)
	if err != nil {
		return nil, err
	}
	return oapi.PutPolicy200JSONResponse{Body: toPolicyKey(k)}, nil
}

// toPolicyKey encodes a key with its values.
func toPolicyKey(k change.PolicyKey) oapi.PolicyKey {
	shown := oapi.PolicyKey{
		Key: k.Name, Meaning: k.Meaning, Type: string(k.Type), Unit: response.OrNil(k.Unit), NotInForce: response.OrNil(k.NotInForce), Default: toValue(k.Default), Set: make([]oapi.PolicySetting, len(k.Set)),
		Readers: append([]string{}, k.Readers()...),
	}
	if k.Cap != policies.CapNone {
		shown.Cap = new(oapi.PolicyKeyCap(k.Cap))
	}
	for _, level := range k.Scopes {
		shown.Scopes = append(shown.Scopes, string(level))
	}
	switch k.Type {
	case policies.TypeInt, policies.TypeMinor:
		shown.Minimum, shown.Maximum = &k.Min, &k.Max
	case policies.TypeEnum, policies.TypeList:
		shown.Values = &k.Values
	case policies.TypeBool, policies.TypeText:
	}
	for i, v := range k.Set {
		shown.Set[i] = oapi.PolicySetting{
			Scope: string(v.Scope), Value: toValue(v.Value), Object: v.Object, Version: v.Version, Source: ToSource(v.Source),
		}
	}
	return shown
}

// toValue: a switch, a number, a text or a list of strings has a JSON form.
func toValue(v any) (shown oapi.PolicyValue) {
	text, err := json.Marshal(v)
	if err == nil {
		err = shown.UnmarshalJSON(text)
	}
	if err != nil {
		panic(err)
	}
	return shown
}
