package support_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/support"
)

var at = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

func section(file, text string) support.Section {
	return support.Section{File: file, Meaning: "About " + file, Read: func(context.Context) ([]byte, error) { return []byte(text), nil }}
}

// built builds and reads a bundle.
func built(t *testing.T, o support.Options, secrets []support.Secret, sections ...support.Section) support.Bundle {
	t.Helper()
	o.Environment, o.Version, o.CreatedAt = "test", "1.2.3", at
	archive, err := support.Build(t.Context(), sections, secrets, o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := support.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestContentAndOmissions(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1023) + "\n"
	b := built(t, support.Options{}, nil,
		section("a.json", `{"status":"ok","n":12345678901234567890}`), section("heap.pprof", "\x1f\x8b\x00"),
		section("log.jsonl", "first\n"+strings.Repeat(line, 5<<10)), section("stacks.txt", strings.Repeat(line, 5<<10)+"last\n"),
		section("large.json", `"`+strings.Repeat("x", 5<<20)+`"`), section("broken.json", "{"),
		support.Section{File: "failed.json", Read: func(context.Context) ([]byte, error) { return nil, errors.New("no\nroute") }},
		support.Section{File: "panics.json", Read: func(context.Context) ([]byte, error) { panic("nil") }},
	)
	if got := string(b.Content["a.json"]); got != `{"n":12345678901234567890,"status":"ok"}` {
		t.Error(got)
	}
	if got := b.Content["heap.pprof"]; string(got) != "\x1f\x8b\x00" {
		t.Errorf("%q", got)
	}
	if log := b.Content["log.jsonl"]; bytes.Contains(log, []byte("first")) || !bytes.HasSuffix(log, []byte(line)) || len(log)%1024 != 0 {
		t.Errorf("%d bytes of the log", len(log))
	}
	if stacks := b.Content["stacks.txt"]; bytes.Contains(stacks, []byte("last")) || len(stacks)%1024 != 0 || len(stacks) == 0 {
		t.Errorf("%d bytes of stacks", len(stacks))
	}
	var truncated, omitted []string
	for _, f := range b.Files {
		if f.Truncated {
			truncated = append(truncated, f.Name)
		}
		if f.Meaning != "About "+f.Name || f.Bytes != len(b.Content[f.Name]) {
			t.Errorf("%+v", f)
		}
	}
	for _, o := range b.Omitted {
		omitted = append(omitted, o.Name+": "+o.Reason)
	}
	if !slices.Equal(truncated, []string{"log.jsonl", "stacks.txt"}) {
		t.Error(truncated)
	}
	if len(omitted) != 4 || !strings.HasPrefix(omitted[0], "large.json: the section has 5242882 bytes") || !strings.HasPrefix(omitted[1], "broken.json: ") ||
		omitted[2] != "failed.json: no route" || omitted[3] != "panics.json: panic: nil" {
		t.Errorf("%q", omitted)
	}
	if b.Environment != "test" || b.Version != "1.2.3" || !b.CreatedAt.Equal(at) || b.Pseudonyms {
		t.Errorf("%+v", b.Manifest)
	}
}

// Each form in which a program may write a secret ends the bundle. The error names the secret and does not contain it.
func TestASecretEndsTheBundle(t *testing.T) {
	t.Parallel()
	const secret = `cæn"ary/+7f3a&11`
	escaped, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"plain": secret, "JSON": strings.Trim(string(escaped), `"`), "query": url.QueryEscape(secret), "path": url.PathEscape(secret), "hex": hex.EncodeToString([]byte(secret)),
		"HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))), "base64": base64.StdEncoding.EncodeToString([]byte(secret)), "base64url": base64.URLEncoding.EncodeToString([]byte(secret + "x")),
	}
	for name, form := range forms {
		for _, file := range []string{"a.txt", "a.pprof", "a.jsonl"} {
			archive, err := support.Build(t.Context(), []support.Section{section("ok.txt", "nothing"), section(file, "value "+form+" and more")}, []support.Secret{{Name: "THE_KEY", Value: secret}}, support.Options{})
			if errs.CodeOf(err) != errs.Internal || archive != nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "THE_KEY") || strings.Contains(err.Error(), form) {
				t.Errorf("%s in %s: %d bytes, %v", name, file, len(archive), err)
			}
		}
	}
	failing := support.Section{File: "f.json", Read: func(context.Context) ([]byte, error) { return nil, errors.New("cannot reach " + secret) }}
	if archive, err := support.Build(t.Context(), []support.Section{failing}, []support.Secret{{Name: "THE_KEY", Value: secret}}, support.Options{}); err == nil || archive != nil {
		t.Errorf("the reason of an omission shows a secret: %v", err)
	}
	key := support.Secret{Name: "THE_KEY", Value: "-----BEGIN KEY-----\nAAAAC3NzaC1lZDI1NTE5\n-----END KEY-----\n"}
	for text, safe := range map[string]bool{"line AAAAC3NzaC1lZDI1NTE5": false, "-----BEGIN KEY-----": true} {
		if _, err := support.Build(t.Context(), []support.Section{section("a.pprof", text)}, []support.Secret{key}, support.Options{}); (err == nil) != safe {
			t.Errorf("%s: %v", text, err)
		}
	}
	long := support.Section{File: "f.json", Read: func(context.Context) ([]byte, error) { return nil, errors.New(strings.Repeat("x", 295) + secret) }}
	if archive, err := support.Build(t.Context(), []support.Section{long}, []support.Secret{{Name: "THE_KEY", Value: secret}}, support.Options{}); err == nil || archive != nil {
		t.Errorf("a part of a secret is in the reason of an omission: %v", err)
	}
	short := built(t, support.Options{}, []support.Secret{{Name: "n", Value: "ok"}, {Name: "e"}}, section("ok.txt", "ok"))
	if len(short.Files) != 1 {
		t.Error("a value of two letters is no secret that can be searched for")
	}
}

func TestMasks(t *testing.T) {
	t.Parallel()
	b := built(t, support.Options{}, nil,
		section("a.json", `{"items":[{"token":"canary","email":"canary@example.org","name":"plain","message":"by ada.canary@mail.example.org at postgres://gpuaas:canary@db/x?sslmode=on"}]}`),
		section("log.jsonl", `{"msg":"plain","password":"canary","err":"Authorization: Bearer canary, then plain"}`+"\nplain client_secret=canary plain\n"),
		section("a.txt", "api_key: \"canary two\" plain\nSET-COOKIE=canary; plain\n"),
		section("forms.txt", strings.Join([]string{
			"plain sk_test_canary and whsec_canary plain", "ALTER ROLE x PASSWORD 'canary' plain", "plain eyJcanary.eyJcanary.canary plain", "GET https://hooks.example.org/services/canary?sig=canary plain",
			"AGE-SECRET-KEY-1CANARY plain", "nats://canary@nats:4222 plain", "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY----- plain", "gpe_canarycanary plain",
		}, "\n")),
	)
	plain := 0
	for name, text := range b.Content {
		if bytes.Contains(bytes.ToLower(text), []byte("canary")) {
			t.Errorf("%s: %s", name, text)
		}
		plain += bytes.Count(text, []byte("plain"))
	}
	if plain != 17 {
		t.Errorf("%d of 17 innocent texts in %s", plain, b.Content)
	}
	for _, f := range b.Files {
		if f.Redactions == 0 {
			t.Errorf("%s counts no redaction", f.Name)
		}
	}
}

func TestPseudonymsAreStableAndEverywhere(t *testing.T) {
	t.Parallel()
	named := func(s support.Section) support.Section { s.Names = true; return s }
	sections := []support.Section{
		section("health.json", `{"checks":[{"name":"postgres"}]}`),
		named(section("nodes.json", `{"items":[{"name":"gpu-h100-07","tenant_name":"Acme Vision","status":"ready","note":"gpu-h100-07 is ready"},{"name":"state"}]}`)),
		section("metrics.txt", `slots{state="free",node="gpu-h100-07"} 1`+"\n"), section("log.jsonl", `{"node":"gpu-h100-07","msg":"of Vision."}`+"\n"),
	}
	first := built(t, support.Options{PseudonymKey: []byte("k")}, nil, sections...)
	for name, text := range first.Content {
		for _, hidden := range []string{"gpu-h100-07", "Acme", "Vision"} {
			if bytes.Contains(text, []byte(hidden)) {
				t.Errorf("%s has %s: %s", name, hidden, text)
			}
		}
	}
	var log struct{ Node string }
	if err := json.Unmarshal(first.Content["log.jsonl"], &log); err != nil || !strings.HasPrefix(log.Node, "name-") {
		t.Fatalf("%s: %v", first.Content["log.jsonl"], err)
	}
	if n := bytes.Count(first.Content["nodes.json"], []byte(log.Node)); n != 2 || !bytes.Contains(first.Content["metrics.txt"], []byte(log.Node)) || !first.Pseudonyms {
		t.Errorf("%d times in %s, and %s", n, first.Content["nodes.json"], first.Content["metrics.txt"])
	}
	if metrics := string(first.Content["metrics.txt"]); !strings.HasPrefix(metrics, `slots{state="free",node="name-`) {
		t.Errorf("a node with the name of a label changes the label: %s", metrics)
	}
	if !bytes.Contains(first.Content["health.json"], []byte("postgres")) {
		t.Error("the name of a check is a pseudonym")
	}
	if !bytes.Contains(first.Content["nodes.json"], []byte(`"status":"ready"`)) {
		t.Errorf("%s", first.Content["nodes.json"])
	}
	again, other := built(t, support.Options{PseudonymKey: []byte("k")}, nil, sections...), built(t, support.Options{PseudonymKey: []byte("l")}, nil, sections...)
	if !bytes.Equal(again.Content["nodes.json"], first.Content["nodes.json"]) || bytes.Contains(other.Content["nodes.json"], []byte(log.Node)) {
		t.Error("a pseudonym depends on the key and on nothing else")
	}
}

// archive packs files without regard to a manifest.
func archive(t *testing.T, files ...[2]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o600, Size: int64(len(f[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestOpenAcceptsOnlyWhatBuildWrites(t *testing.T) {
	t.Parallel()
	whole, err := support.Build(t.Context(), []support.Section{section("a.txt", "text\n"), section("b.txt", "more\n")}, nil, support.Options{CreatedAt: at})
	if err != nil {
		t.Fatal(err)
	}
	b, err := support.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	head, err := json.Marshal(b.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, a, more := [2]string{"manifest.json", string(head)}, [2]string{"a.txt", "text\n"}, [2]string{"b.txt", "more\n"}
	if _, err := support.Open(archive(t, manifest, a, more)); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string][]byte{
		"nothing": nil, "a text": []byte("text"), "no manifest": archive(t, a, more), "a missing file": archive(t, manifest, a), "swapped files": archive(t, manifest, more, a),
		"one file more": archive(t, manifest, a, more, [2]string{"../c.txt", ""}), "other content": archive(t, manifest, a, [2]string{"b.txt", "mora\n"}),
		"a manifest of the future": archive(t, [2]string{"manifest.json", strings.Replace(string(head), `"format":1`, `"format":2`, 1)}, a, more),
		"an unknown field":         archive(t, [2]string{"manifest.json", `{"x":1,` + string(head)[1:]}, a, more),
		"a bomb":                   archive(t, manifest, [2]string{"a.txt", strings.Repeat("0", 8<<20)}, more),
		"a large archive":          make([]byte, support.MostBytes+1), "something behind it": append(bytes.Clone(whole), 0),
	} {
		if got, err := support.Open(bad); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%s: %v, %v", name, got.Manifest, err)
		}
	}
	for cut := range whole {
		if _, err := support.Open(whole[:cut]); err == nil {
			t.Errorf("an archive of %d of %d bytes was accepted", cut, len(whole))
		}
	}
}

func TestExplainNamesRunbooks(t *testing.T) {
	t.Parallel()
	b := built(t, support.Options{}, nil,
		section(support.OverviewFile, `{"panels":[{"name":"breaker","status":"degraded","message":"stopped","runbook_id":"mass-action-breaker"},{"name":"drift","status":"ok","message":"","runbook_id":"drift-unresolved"}]}`),
		section(support.HealthFile, `{"status":"down","checks":[{"name":"nats","status":"down","message":"no route"},{"name":"database","status":"ok","message":""}]}`),
		section(support.MetricsFile, "# TYPE gpus gauge\ngpus{state=\"unhealthy\",sku=\"t4\"} 2\ngpus{state=\"ok\",sku=\"t4\"} 9\n# TYPE left gauge\nleft 10\n# TYPE calls_total counter\ncalls_total 5\n"),
	)
	got := support.Explain(b, []support.Rule{
		{Alert: "Unhealthy", Expr: `sum by (sku, region) (gpus{state="unhealthy"}) > 0`, Summary: "GPUs are unhealthy", Runbook: "gpu-unhealthy"},
		{Alert: "Other", Expr: `gpus{state="lost"} > 0`, Runbook: "x"},
		{Alert: "Few", Expr: "left < 11", Summary: "few are left", Runbook: "few"},
		{Alert: "Many", Expr: "left > 10", Runbook: "x"},
		{Alert: "Rate", Expr: "sum(increase(calls_total[15m])) > 0", Runbook: "x"},
		{Alert: "Counter", Expr: "calls_total > 0", Runbook: "x"},
		{Alert: "Missing", Expr: "absent_metric > 0", Runbook: "x"},
	})
	want := []string{
		"mass-action-breaker: the panel breaker is degraded: stopped", "section-degraded: the check nats is down: no route", "gpu-unhealthy: Unhealthy: GPUs are unhealthy (2)", "few: Few: few are left (10)",
	}
	var lines []string
	for _, h := range got {
		lines = append(lines, fmt.Sprintf("%s: %s", h.Runbook, h.Reason))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}
