package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// ListPolicies handles GET /api/v1/admin/policies.
func (s *Server) ListPolicies(ctx context.Context, req oapi.ListPoliciesRequestObject) (oapi.ListPoliciesResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]oapi.PolicyKey, error) {
		keys := keysAfter(or(req.Params.Prefix, ""), after, n)
		set, err := s.Settings.Settings(ctx, keys)
		if err != nil {
			return nil, err
		}
		return toPolicyKeys(keys, set)
	}, func(k oapi.PolicyKey) string { return k.Key }, func(k oapi.PolicyKey) oapi.PolicyKey { return k })
	if err != nil {
		return nil, err
	}
	return oapi.ListPolicies200JSONResponse{
		Body:    oapi.PolicyList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListPolicies200ResponseHeaders{Link: l.link},
	}, nil
}

// keysAfter are the names of some keys, in their alphabet's order.
func keysAfter(prefix, after string, limit int) []string {
	var names []string
	for _, k := range policies.Keys() {
		if strings.HasPrefix(k.Name, prefix) && k.Name > after {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), limit)]
}

// PutPolicy handles PUT /api/v1/admin/policies/{key}.
func (s *Server) PutPolicy(ctx context.Context, req oapi.PutPolicyRequestObject) (oapi.PutPolicyResponseObject, error) {
	ctx, r := of(ctx)
	version, err := ifMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	if _, known := policies.Define(req.Key); !known {
		return nil, errs.New(errs.NotFound, "no policy key is named %q", req.Key)
	}
	sent, err := decode(r.body)
	if err != nil {
		return nil, err
	}
	body, _ := sent.(map[string]any) // was held against the contract
	scope := policies.Scope(or(req.Body.Scope, string(policies.Platform)))
	value, fault := policies.Check(req.Key, string(scope), body["value"])
	if fault != nil {
		return nil, errs.Invalid(fault.Field, "%s", fault.Message).Try("use %s", fault.Expected)
	}
	answered := func(set []Setting) oapi.PolicyKey {
		shown, err := toPolicyKeys([]string{req.Key}, set)
		if err != nil { // the room has just written it
			panic(err)
		}
		return shown[0]
	}
	set, err := s.Settings.Set(ctx, keep(r, func(set []Setting) identity.Reply {
		return reply(http.StatusOK, answered(set), "", "")
	}), NewSetting{Key: req.Key, Scope: scope, Value: value, Version: version})
	if err != nil {
		return nil, err
	}
	return oapi.PutPolicy200JSONResponse{Body: answered(set)}, nil
}

// toPolicyKeys shows keys with what is set of each.
func toPolicyKeys(keys []string, set []Setting) ([]oapi.PolicyKey, error) {
	shown := make([]oapi.PolicyKey, len(keys))
	for i, name := range keys {
		k, _ := policies.Define(name)
		shown[i] = oapi.PolicyKey{Key: k.Name, Meaning: k.Meaning, Type: string(k.Type), Unit: filled(k.Unit), Set: []oapi.PolicySetting{}}
		for _, level := range k.Scopes {
			shown[i].Scopes = append(shown[i].Scopes, string(level))
		}
		switch k.Type {
		case policies.TypeInt, policies.TypeMinor:
			shown[i].Minimum, shown[i].Maximum = &k.Min, &k.Max
		case policies.TypeEnum, policies.TypeList:
			shown[i].Values = &k.Values
		case policies.TypeBool, policies.TypeText:
		}
		var err error
		if shown[i].Default, err = toValue(k.Default); err != nil {
			return nil, err
		}
		for _, v := range set {
			if v.Key != name {
				continue
			}
			value, err := toValue(v.Value)
			if err != nil {
				return nil, err
			}
			shown[i].Set = append(shown[i].Set, oapi.PolicySetting{
				Scope: string(v.Scope), Value: value, Object: v.Object, Version: v.Version, Source: toSource(v.Source),
			})
		}
	}
	return shown, nil
}

func toValue(v any) (shown oapi.PolicyValue, err error) {
	text, err := json.Marshal(v)
	if err == nil {
		err = shown.UnmarshalJSON(text)
	}
	if err != nil {
		return shown, fmt.Errorf("showing the value of a policy: %w", err)
	}
	return shown, nil
}
