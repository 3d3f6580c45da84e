package cli

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/inspect"
	"github.com/gpuaas/gpuaas/cli/local"
	"github.com/gpuaas/gpuaas/cli/output"
)

func TestLasting(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int64]string{
		0: "0s", 59: "59s", 60: "1m", 61: "1m 1s", 3600: "1h", 3661: "1h 1m", 86400: "1d", 90000: "1d 1h", 86400 + 59: "1d",
		3650 * 86400: "3650d", 3651 * 86400: "more than 10 years",
	} {
		if got := output.FormatSeconds(seconds); got != want {
			t.Errorf("%d s: %q, want %q", seconds, got, want)
		}
	}
}

func TestParseSpan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "1d 30m": 24*time.Hour + 30*time.Minute, "0s": 0,
	} {
		if got, err := output.ParseSpan(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "soon", "-1h", "-1d", "1d-1h", "d", "99999999999d", "1.5d", "12"} {
		if got, err := output.ParseSpan(text); err == nil {
			t.Errorf("%q is parsed as %s", text, got)
		}
	}
}

func TestBornAt(t *testing.T) {
	t.Parallel()
	if got := output.BornAt(uuid.Must(uuid.NewV7())); time.Since(got).Abs() > time.Minute {
		t.Errorf("born %s", got)
	}
	if got := output.BornAt(uuid.New()); !got.IsZero() {
		t.Errorf("a random id contains the time %s", got)
	}
}

func TestYAMLKeepsOrderAndTypes(t *testing.T) {
	t.Parallel()
	const document = `{"z":1,"a":{"yes":"true","number":"12","empty":{},"none":[],"big":9007199254740993,"float":1.5},"list":[{"k":null},"two\nlines","😀"],"b":false}`
	text, err := output.ToYAML(json.RawMessage(document))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "z: 1\na:\n  \"yes\": \"true\"\n  number: \"12\"\n") {
		t.Errorf("the sequence or quotes are lost:\n%s", text)
	}
	var back, want any
	if err := yaml.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(document), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, back); diff != "" {
		t.Error(diff)
	}
}

func TestColourChangesNoWidth(t *testing.T) {
	t.Parallel()
	one := output.Table{Head: []string{"READY", "NAME"}}
	one.Add("", "✓ True", "a")
	one.Add("", "✗ False", "b")
	plain, painted := console(t, nil), console(t, nil)
	painted.Colours = true
	got := painted.Render(one)
	if !strings.Contains(got, "\x1b[32m✓ True\x1b[0m") {
		t.Errorf("no colour in %q", got)
	}
	for _, code := range []string{"\x1b[32m", "\x1b[31m", "\x1b[0m"} {
		got = strings.ReplaceAll(got, code, "")
	}
	if got != plain.Render(one) {
		t.Errorf("with colour\n%q\nwithout\n%q", got, plain.Render(one))
	}
}

func TestReadStream(t *testing.T) {
	t.Parallel()
	const body = "retry: 2000\n\n: alive\n\nid: 7\nevent: a.b\ndata: {\"event_type\":\ndata: \"a.b\",\"payload\":{\"urn\":\"v:s:-:-:-:node:9\",\"name\":\"n1\"}}\n\ndata:{\"event_type\":\"c\"}\n\ndata: {\"cut"
	heard := 0
	var got []string
	err := client.ReadStream(strings.NewReader(body), func() { heard++ }, func(f client.Event) error {
		got = append(got, f.ID+" "+f.Type+" "+inspect.Subject(f))
		return nil
	})
	if err != io.EOF { //nolint:errorlint // exactly this, as a reader would
		t.Errorf("%v at the end", err)
	}
	if diff := cmp.Diff([]string{"7 a.b node/n1", "7 c -"}, got); diff != "" {
		t.Error(diff)
	}
	if heard < 10 {
		t.Errorf("comments were not heard: %d lines", heard)
	}
	if err := client.ReadStream(strings.NewReader("data: nonsense\n\n"), func() {}, func(client.Event) error { return nil }); err == nil {
		t.Error("nonsense was read")
	}
}

func TestIndented(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := local.Indented(&b)
	for _, part := range []string{"a\nb", "c\n", "\nd"} {
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
	}
	if want := "  a\n  bc\n  \n  d"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
