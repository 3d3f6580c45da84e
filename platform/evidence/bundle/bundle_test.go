package bundle_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
)

// signer signs with the key of a seed.
type signer struct {
	kid string
	key ed25519.PrivateKey
}

func newSigner(kid string) signer {
	seed := bytes.Repeat([]byte(kid[:1]), ed25519.SeedSize)
	return signer{kid, ed25519.NewKeyFromSeed(seed)}
}

func (s signer) Active() string { return s.kid }

func (s signer) Sign(_ context.Context, _ string, body []byte) ([]byte, error) {
	return ed25519.Sign(s.key, body), nil
}

func (s signer) keys() bundle.Keys {
	return bundle.Keys{s.kid: s.key.Public().(ed25519.PublicKey)}
}

// predicate has records in some parts, and different ones in each.
func predicate(number int64, previous string) bundle.Predicate {
	p := bundle.Predicate{
		ID: uuid.MustParse("01990f47-1111-7222-8333-444455556666"), Environment: "staging", Number: number, Previous: previous, Kind: bundle.Allocation, About: "a:b:-:-:-:allocation:1",
		Cause: fmt.Sprint("request/", number), RequestedBy: "user:1", CollectedAt: time.Date(2026, 1, 5, 11, 0, 0, 0, time.UTC),
	}
	for i, name := range bundle.Names() {
		p.Parts = append(p.Parts, bundle.Part{Name: name, Records: json.RawMessage(fmt.Sprintf(`[{"record":"r%d","text":"<%s> & %d"}]`, i, name, number))})
	}
	return p
}

func sign(t *testing.T, by bundle.Signer, p bundle.Predicate) []byte {
	t.Helper()
	file, _, err := bundle.Sign(t.Context(), by, p)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestWhatIsSignedOpens(t *testing.T) {
	t.Parallel()
	by := newSigner("k1")
	file := sign(t, by, predicate(1, ""))
	b, err := bundle.Open(file, by.keys())
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b.Predicate.Records(bundle.Charged)); !strings.Contains(got, `"record":"r6"`) || b.KeyID != "k1" || b.SHA256 != bundle.SHA256(file) {
		t.Errorf("%s %s %s", got, b.KeyID, b.SHA256)
	}
	// Another reader of DSSE needs only the encoding of the specification: this text was written by hand.
	var e struct{ Payload, PayloadType string }
	var sigs struct {
		Signatures []struct{ Sig string }
	}
	if err := json.Unmarshal(file, &e); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file, &sigs); err != nil {
		t.Fatal(err)
	}
	payload, _ := base64.StdEncoding.DecodeString(e.Payload)
	sig, _ := base64.StdEncoding.DecodeString(sigs.Signatures[0].Sig)
	signed := "DSSEv1 28 application/vnd.in-toto+json " + fmt.Sprint(len(payload)) + " " + string(payload)
	if e.PayloadType != "application/vnd.in-toto+json" || !ed25519.Verify(by.keys()["k1"], []byte(signed), sig) {
		t.Error("the signature does not cover the pre-authentication encoding of DSSE v1")
	}
}

// Every byte of a file is covered: 10,000 random changes of one byte, and each byte once.
func TestEveryChangedByteIsDetected(t *testing.T) {
	t.Parallel()
	by := newSigner("k1")
	file := sign(t, by, predicate(1, ""))
	detect := func(at int, to byte) {
		changed := bytes.Clone(file)
		changed[at] = to
		if _, err := bundle.Open(changed, by.keys()); err == nil {
			t.Errorf("byte %d from %q to %q is not detected", at, file[at], to)
		}
	}
	source := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		at := source.IntN(len(file))
		detect(at, file[at]+1+byte(source.IntN(255)))
	}
	for at := range file {
		detect(at, file[at]^1)
		detect(at, ' ')
	}
	for at := range file {
		if _, err := bundle.Open(file[:at], by.keys()); err == nil {
			t.Errorf("a file that was cut at byte %d is not detected", at)
		}
	}
}

// What the quick reader of a payload accepts, the one that names faults accepts, too, and with the same result.
func TestTheQuickReaderAcceptsNothingElse(t *testing.T) {
	t.Parallel()
	by := newSigner("k1")
	payload := []byte(payloadOf(t, sign(t, by, predicate(1, ""))))
	if _, ok := bundle.ScanContent(payload); !ok {
		t.Fatal("it rejects what Sign writes")
	}
	source := rand.New(rand.NewPCG(3, 4))
	const typical = `{}[]",:\\u0041<e+-. 0019ntx`
	accepted := 0
	for range 10_000 {
		at := source.IntN(len(payload))
		changed := slices.Replace(bytes.Clone(payload), at, min(at+source.IntN(3), len(payload)), []byte(typical[source.IntN(len(typical)):])[:source.IntN(2)]...)
		quick, ok := bundle.ScanContent(changed)
		if !ok {
			continue
		}
		accepted++
		slow, fault := bundle.ReadContent(changed)
		if !reflect.DeepEqual(fault, bundle.Check(quick)) || fault == nil && !reflect.DeepEqual(quick, slow) {
			t.Fatalf("byte %d: %v\n%s", at, fault, changed)
		}
	}
	if accepted < 500 {
		t.Errorf("only %d changes were accepted", accepted)
	}
}

// forge builds an envelope with a payload that its author has signed, so that only the content is at fault.
func forge(by signer, payload string) []byte {
	sig := ed25519.Sign(by.key, fmt.Appendf(nil, "DSSEv1 28 application/vnd.in-toto+json %d %s", len(payload), payload))
	return fmt.Appendf(nil, `{"payloadType":"application/vnd.in-toto+json","payload":"%s","signatures":[{"keyid":"%s","sig":"%s"}]}`+"\n",
		base64.StdEncoding.EncodeToString([]byte(payload)), by.kid, base64.StdEncoding.EncodeToString(sig))
}

func payloadOf(t *testing.T, file []byte) string {
	t.Helper()
	var e struct{ Payload string }
	if err := json.Unmarshal(file, &e); err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each fault names its place, also where the signature is sound.
func TestFaultsAreNamed(t *testing.T) {
	t.Parallel()
	by := newSigner("k1")
	file := sign(t, by, predicate(1, ""))
	payload := payloadOf(t, file)
	if string(forge(by, payload)) != string(file) {
		t.Fatal("the test does not build the file of a bundle")
	}
	part := func(name string) string {
		start := strings.Index(payload, `{"name":"`+name+`","records"`)
		end := strings.Index(payload[start:], "]}") + start + 2
		return payload[start:end]
	}
	subject := func(name string) string {
		start := strings.Index(payload, `{"name":"a:b:-:-:-:allocation:1#`+name+`"`)
		end := strings.Index(payload[start:], "}}") + start + 2
		return payload[start:end]
	}
	change := func(pairs ...string) []byte {
		changed := strings.NewReplacer(pairs...).Replace(payload)
		if changed == payload {
			t.Fatalf("nothing was replaced by %q", pairs)
		}
		return forge(by, changed)
	}
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":                        {nil, "envelope is no JSON at byte 0"},
		"no JSON":                      {[]byte("hello\n"), "envelope is no JSON"},
		"another type":                 {bytes.Replace(file, []byte("in-toto+json"), []byte("other+json"), 1), `envelope.payloadType is "application/vnd.other+json"`},
		"an unknown key of the object": {bytes.Replace(file, []byte(`{"payloadType"`), []byte(`{"more":1,"payloadType"`), 1), `envelope cannot be read: json: unknown field "more"`},
		"a duplicate key":              {bytes.Replace(file, []byte(`{"payloadType"`), []byte(`{"payload":"","payloadType"`), 1), "envelope.payload exists twice"},
		"another case of a key":        {bytes.Replace(file, []byte(`"payloadType"`), []byte(`"PayloadType"`), 1), "envelope differs at byte 2"},
		"two signatures":               {bytes.Replace(file, []byte(`"}]}`), []byte(`"},{"keyid":"k1","sig":""}]}`), 1), "envelope.signatures has 2 signatures"},
		"no signature":                 {fmt.Appendf(nil, `{"payloadType":"application/vnd.in-toto+json","payload":"","signatures":[]}`+"\n"), "envelope.signatures has 0 signatures"},
		"something behind its end":     {append(bytes.Clone(file), '{'), "envelope has something behind its end"},
		"an end of line in base64":     {bytes.Replace(file, []byte(`"payload":"`), []byte("\"payload\":\"\n"), 1), "envelope.payload has ends of lines"},
		"two line feeds":               {append(bytes.Clone(file), '\n'), "envelope differs at byte"},
		"an unknown predicate":         {change("evidence.md#v1", "evidence.md#v2"), "payload.predicateType is"},
		"another statement":            {change("Statement/v1", "Statement/v2"), "payload._type is"},
		"an unknown kind":              {change(`"kind":"allocation"`, `"kind":"wish"`), `payload.predicate.kind "wish" is not known`},
		"a duplicate key in a record":  {change(`"record":"r6"`, `"record":"r6","record":"r7"`), "payload.predicate.parts[6].records[0].record exists twice"},
		"a changed record":             {change(`"record":"r6"`, `"record":"r9"`), `payload.predicate.parts[6] "charged" has the digest`},
		"a missing part":               {change(","+part("charged"), ""), `payload.predicate.parts lacks the part "charged"`},
		"a part twice":                 {change(part("charged"), part("charged")+","+part("charged")), `payload.predicate.parts[7] is "charged", which does not belong there`},
		"an unknown part":              {change(part("audited"), part("audited")+`,{"name":"more","records":[]}`), `payload.predicate.parts[8] is "more"`},
		"swapped names": {
			change(`{"name":"planned","records"`, `{"name":"charged","records"`, `{"name":"charged","records"`, `{"name":"planned","records"`), `payload.predicate.parts[2] is "charged"`,
		},
		"swapped records":    {change(`"r2","text":"\u003cplanned\u003e`, `"r6","text":"\u003ccharged\u003e`, `"r6","text":"\u003ccharged\u003e`, `"r2","text":"\u003cplanned\u003e`), `which is that of the part "charged"`},
		"a missing subject":  {change(","+subject("audited"), ""), `payload.subject lacks the part "audited"`},
		"an extra subject":   {change(subject("audited"), subject("audited")+","+subject("charged")), "payload.subject[8] is"},
		"another subject":    {change("#charged", "#other"), `payload.subject[6] is "a:b:-:-:-:allocation:1#other"`},
		"spaces":             {change(`"number":1`, `"number": 1`), "payload differs at byte"},
		"number zero":        {change(`"number":1`, `"number":0`), "payload.predicate.number"},
		"no list":            {change(part("audited"), `{"name":"audited","records":{}}`), "payload.predicate.parts[7].records is no list"},
		"an odd previous":    {change(`"number":1,`, `"number":2,"previous":"ABC",`), `payload.predicate.previous is "ABC", which is no SHA-256`},
		"no previous bundle": {change(`"number":1`, `"number":2`), "payload.predicate.previous"},
		"deep":               {change(`"r6"`, deep), "is nested deeper than 64 levels"},
		"large":              {bytes.Repeat([]byte(" "), 100<<20), "file has 104857600 bytes"},
		"a name of 4 MiB":    {[]byte(`{"` + strings.Repeat("k", 4<<20) + `":[0` + strings.Repeat(",0", 1<<20) + "]}\n"), "envelope cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := bundle.Open(c.file, by.keys()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// A changed payload without the key breaks the signature, and the digests name the part.
func TestAChangeWithoutTheKeyNamesItsPart(t *testing.T) {
	t.Parallel()
	by, other := newSigner("k1"), newSigner("x1")
	file := sign(t, by, predicate(1, ""))
	changed := strings.Replace(payloadOf(t, file), `"record":"r6"`, `"record":"r9"`, 1)
	forged := forge(signer{"k1", other.key}, changed)
	_, err := bundle.Open(forged, by.keys())
	if err == nil || !strings.Contains(err.Error(), `envelope.signatures[0].sig is not of the key "k1"`) || !strings.Contains(err.Error(), `parts[6] "charged"`) {
		t.Errorf("got %v", err)
	}
	if _, err := bundle.Open(file, other.keys()); err == nil || !strings.Contains(err.Error(), `names the key "k1", which is none of the given keys`) {
		t.Errorf("with another key: %v", err)
	}
}

// Both keys verify during a rotation, each for its own bundles.
func TestRotation(t *testing.T) {
	t.Parallel()
	old, next := newSigner("k1"), newSigner("z2")
	first := sign(t, old, predicate(1, ""))
	second := sign(t, next, predicate(2, bundle.SHA256(first)))
	keys, err := bundle.ParseKeys([]byte("# of staging\n" + bundle.KeyLine("k1", old.keys()["k1"]) + bundle.KeyLine("z2", next.keys()["z2"])))
	if err != nil {
		t.Fatal(err)
	}
	a, errA := bundle.Open(first, keys)
	b, errB := bundle.Open(second, keys)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if gaps, fault := bundle.Chain([]bundle.Bundle{b, a}, b.SHA256); fault != nil || len(gaps) > 0 {
		t.Error(gaps, fault)
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	by := newSigner("k1")
	var all []bundle.Bundle
	previous := ""
	open := func(p bundle.Predicate) bundle.Bundle {
		b, err := bundle.Open(sign(t, by, p), by.keys())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for n := range int64(4) {
		all = append(all, open(predicate(n+1, previous)))
		previous = all[n].SHA256
	}
	elsewhere := predicate(2, all[0].SHA256)
	elsewhere.Environment = "dev"
	fork := predicate(2, all[0].SHA256)
	fork.Cause = "another"
	for name, c := range map[string]struct {
		all  []bundle.Bundle
		head string
		gaps int
		want string
	}{
		"whole":                {all, all[3].SHA256, 0, ""},
		"in another sequence":  {[]bundle.Bundle{all[2], all[0], all[1]}, all[2].SHA256, 0, ""},
		"a gap":                {[]bundle.Bundle{all[0], all[3]}, "", 1, ""},
		"a gap under a head":   {[]bundle.Bundle{all[0], all[3]}, all[3].SHA256, 0, "bundle 2 is missing"},
		"the end is missing":   {all[:3], all[3].SHA256, 0, "bundle 3 is " + all[2].SHA256},
		"twice":                {[]bundle.Bundle{all[0], all[0]}, "", 0, "bundle 1 was given twice"},
		"a fork":               {[]bundle.Bundle{all[0], all[1], open(fork)}, "", 0, "bundle 2 exists twice"},
		"a broken link":        {[]bundle.Bundle{all[0], open(predicate(2, strings.Repeat("0", 64)))}, "", 0, "the chain is broken"},
		"of two environments":  {[]bundle.Bundle{all[0], open(elsewhere)}, "", 0, `is of the environment "dev"`},
		"one without its head": {all[:1], "", 0, ""},
	} {
		gaps, fault := bundle.Chain(c.all, c.head)
		switch {
		case c.want == "" && fault != nil, c.want != "" && (fault == nil || !strings.Contains(fault.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, fault, c.want)
		case fault == nil && len(gaps) != c.gaps:
			t.Errorf("%s: gaps %v", name, gaps)
		}
	}
}

func TestKeyFiles(t *testing.T) {
	t.Parallel()
	line := bundle.KeyLine("k1", newSigner("k1").keys()["k1"])
	other := bundle.KeyLine("k1", newSigner("z2").keys()["z2"])
	for text, want := range map[string]string{
		"": "has no key", "# only\n": "has no key", "k1 AAAA\n": "line 1", "k1\n": "line 1", line + "k2 ?\n": "line 2", line + other: "another key with the id k1",
	} {
		if _, err := bundle.ParseKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if keys, err := bundle.ParseKeys([]byte(line + line)); err != nil || len(keys) != 1 {
		t.Error(keys, err)
	}
}
