package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Case is a token with the expected error code. The code is empty for a good token.
type Case struct {
	Token string
	Code  errs.Code
}

// Good returns tokens that must be accepted: one for each algorithm, and the forms in which providers
// differ.
func (i *Issuer) Good() map[string]Case {
	good := map[string]Case{
		"EdDSA":                     {Token: i.Token("EdDSA", Ed25519, nil, nil)},
		"ES256":                     {Token: i.Token("ES256", P256, nil, nil)},
		"ES384":                     {Token: i.Token("ES384", P384, nil, nil)},
		"ES512":                     {Token: i.Token("ES512", P521, nil, nil)},
		"PS256 of a key for it":     {Token: i.Token("PS256", PinnedPSS, nil, nil)},
		"typ JWT":                   {Token: i.Token("RS256", RSA, Object{"typ": "JWT"}, nil)},
		"typ in another case":       {Token: i.Token("RS256", RSA, Object{"typ": "Application/AT+JWT"}, nil)},
		"no claim typ":              {Token: i.Token("RS256", RSA, nil, Object{"typ": nil})},
		"audience as one text":      {Token: i.Token("RS256", RSA, nil, Object{"aud": i.Audience})},
		"expired within the leeway": {Token: i.Token("RS256", RSA, nil, Object{"exp": i.Now().Unix() - 50})},
		"issued within the leeway":  {Token: i.Token("RS256", RSA, nil, Object{"iat": i.Now().Unix() + 50})},
		"time with a fraction":      {Token: i.Token("RS256", RSA, nil, Object{"exp": float64(i.Now().Unix()) + 300.5})},
		"a thumbprint of a chain":   {Token: i.Token("RS256", RSA, Object{"x5t": "abc"}, nil)},
	}
	for _, algorithm := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"} {
		good[algorithm] = Case{Token: i.Token(algorithm, RSA, nil, nil)}
	}
	return good
}

// Hostile returns tokens that must be rejected, by their defect.
func (i *Issuer) Hostile() map[string]Case {
	all := map[string]Case{"expired": {i.Token("RS256", RSA, nil, Object{"exp": i.Now().Unix() - 61}), errs.TokenExpired}}
	for _, part := range []map[string]string{i.algorithms(), i.keys(), i.headers(), i.forms(), i.signatures(), i.claims(), i.times(), i.purposes()} {
		for name, token := range part {
			if _, twice := all[name]; twice {
				panic("two hostile tokens are named " + name)
			}
			all[name] = Case{token, errs.TokenInvalid}
		}
	}
	return all
}

func (i *Issuer) algorithms() map[string]string {
	public, ok := i.Keys[RSA].Public().(*rsa.PublicKey)
	if !ok {
		panic("no RSA key")
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		panic(err)
	}
	claims := JSON(i.Claims())
	unsigned := func(algorithm string) string {
		return B64([]byte(JSON(i.Header(algorithm, RSA)))) + "." + B64([]byte(claims)) + "."
	}
	hmac := JSON(i.Header("HS256", RSA))
	good := i.Token("RS256", RSA, nil, nil)
	all := map[string]string{
		"HS256 with the public key as PEM":  HMAC(hmac, claims, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"HS256 with the public key as DER":  HMAC(hmac, claims, der),
		"HS256 with PKCS 1":                 HMAC(hmac, claims, x509.MarshalPKCS1PublicKey(public)),
		"HS256 with the modulus":            HMAC(hmac, claims, public.N.Bytes()),
		"HS256 with an empty secret":        HMAC(hmac, claims, nil),
		"HS256 with a published secret":     HMAC(JSON(i.Header("HS256", "oct")), claims, []byte("a shared secret that was published by mistake")),
		"none with a good signature":        i.Token("RS256", RSA, Object{"alg": "none"}, nil),
		"an algorithm in lower case":        i.Token("RS256", RSA, Object{"alg": "rs256"}, nil),
		"an algorithm with a space":         i.Token("RS256", RSA, Object{"alg": "RS256 "}, nil),
		"an algorithm that is a list":       i.Token("RS256", RSA, Object{"alg": []string{"RS256"}}, nil),
		"no algorithm":                      i.Token("RS256", RSA, Object{"alg": nil}, nil),
		"an unknown algorithm":              i.Token("RS256", RSA, Object{"alg": "RS1"}, nil),
		"RS256 of a key for PS256":          i.Token("RS256", PinnedPSS, nil, nil),
		"PS512 of a key for PS256":          i.Token("PS512", PinnedPSS, nil, nil),
		"ES256 of a curve for ES384":        i.Token("ES256", P384, nil, nil),
		"ES512 of a curve for ES256":        i.Token("ES512", P256, nil, nil),
		"ES256K":                            i.Token("ES256", P256, Object{"alg": "ES256K"}, nil),
		"RS256 signed as PS256":             i.Sign(JSON(i.Header("RS256", RSA)), claims, "PS256", RSA),
		"EdDSA of an RSA key":               i.Sign(JSON(i.Header("EdDSA", RSA)), claims, "RS256", RSA),
		"a key for encryption":              i.Token("RS256", ForEnc, nil, nil),
		"an RSA key of 1024 bits":           i.Token("RS256", Weak, nil, nil),
		"the algorithm's name in two cases": i.Sign(`{"alg":"RS256","ALG":"none","kid":"rsa","typ":"at+jwt"}`, claims, "RS512", RSA),
	}
	for _, none := range []string{"none", "None", "NONE", "nOnE", "", "null"} {
		all["unsigned, algorithm "+none] = unsigned(none)
		all["with a foreign signature, algorithm "+none] = unsigned(none) + good[strings.LastIndex(good, ".")+1:]
	}
	return all
}

func (i *Issuer) keys() map[string]string {
	own := made(i.Keys[Foreign], nil)
	embedded := jose.JSONWebKey{Key: own.Public(), KeyID: "mine", Algorithm: "RS256"}
	by := func(header Object) string {
		return i.Sign(JSON(i.Header("RS256", RSA).With(header)), JSON(i.Claims()), "RS256", Foreign)
	}
	good := func(header Object) string { return i.Token("RS256", RSA, header, nil) }
	return map[string]string{
		"a foreign realm's key under our name": by(nil),
		"a rotated-out key":                    i.Token("RS256", Gone, nil, nil),
		"an embedded key":                      by(Object{"jwk": embedded, "kid": "mine"}),
		"an embedded key and a good one":       good(Object{"jwk": embedded}),
		"a key's address":                      by(Object{"jku": i.URL + "/keys", "kid": "mine"}),
		"a key's address and a good one":       good(Object{"jku": "https://evil.example/keys"}),
		"a certificate's address":              good(Object{"x5u": "https://evil.example/chain.pem"}),
		"an embedded certificate":              good(Object{"x5c": []string{"MIIB"}}),
		"no key's name":                        good(Object{"kid": nil}),
		"an empty key's name":                  good(Object{"kid": ""}),
		"a key's name that is a number":        good(Object{"kid": 1}),
		"a key's name that is a path":          good(Object{"kid": "../../../../dev/null"}),
		"a key's name that is SQL":             good(Object{"kid": "rsa' OR '1'='1"}),
		"a key's name that is an address":      good(Object{"kid": i.URL + "/keys"}),
		"an unknown key's name":                good(Object{"kid": "unknown"}),
		"a very long key's name":               good(Object{"kid": strings.Repeat("k", 5000)}),
		"a key's name with a zero byte":        good(Object{"kid": "rsa\x00"}),
		"a key's name in capitals":             good(Object{"kid": "RSA"}),
	}
}

func (i *Issuer) headers() map[string]string {
	good := func(header Object) string { return i.Token("RS256", RSA, header, nil) }
	claims := JSON(i.Claims())
	twice := strings.Replace(claims, `"sub":`, `"sub":"somebody","sub":`, 1)
	deep := strings.Replace(claims, `"realm_access":{`, `"realm_access":{"roles":["gpuaas-admin"],`, 1)
	header := JSON(i.Header("RS256", RSA))
	return map[string]string{
		"an unknown critical header":          good(Object{"crit": []string{"exp2"}, "exp2": 1}),
		"an empty list of critical headers":   good(Object{"crit": []string{}}),
		"a payload that is not encoded":       good(Object{"b64": false, "crit": []string{"b64"}}),
		"b64 without crit":                    good(Object{"b64": false}),
		"a nested token":                      i.Sign(JSON(i.Header("RS256", RSA).With(Object{"cty": "JWT"})), JSON(i.Token("RS256", RSA, nil, nil)), "RS256", RSA),
		"a content type":                      good(Object{"cty": "JWT"}),
		"compression":                         good(Object{"zip": "DEF"}),
		"the header's algorithm twice":        i.Sign(`{"alg":"none","alg":"RS256","kid":"rsa","typ":"at+jwt"}`, claims, "RS256", RSA),
		"a claim twice":                       i.Sign(header, twice, "RS256", RSA),
		"a claim twice, further down":         i.Sign(header, deep, "RS256", RSA),
		"claims that are a list":              i.Sign(header, "["+claims+"]", "RS256", RSA),
		"claims that are a text":              i.Sign(header, `"claims"`, "RS256", RSA),
		"claims that are null":                i.Sign(header, "null", "RS256", RSA),
		"claims with something after the end": i.Sign(header, claims+"{}", "RS256", RSA),
		"claims that end too early":           i.Sign(header, claims[:len(claims)-1], "RS256", RSA),
		"claims that are not UTF-8":           i.Sign(header, strings.Replace(claims, "subject-1", "subject-\xff", 1), "RS256", RSA),
		"claims nested too deep":              i.Sign(header, `{"a":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+"}", "RS256", RSA),
		"claims in other letters":             i.Sign(header, strings.NewReplacer(`"exp"`, `"EXP"`).Replace(claims), "RS256", RSA),
	}
}

func (i *Issuer) forms() map[string]string {
	good := i.Token("RS256", RSA, nil, nil)
	parts := strings.Split(good, ".")
	// The last letter carries bits that a loose reader drops.
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(letters, good[len(good)-1])
	return map[string]string{
		"padding":                   good + "==",
		"padding in the header":     parts[0] + "=." + parts[1] + "." + parts[2],
		"base64 that is not ours":   good[:len(good)-1] + string(letters[last|1]),
		"the other base64 alphabet": strings.NewReplacer("-", "+", "_", "/").Replace(i.withBoth()),
		"a space before":            " " + good, "a line's end after": good + "\n", "a line's end within": good[:20] + "\n" + good[20:],
		"a tab within": good[:20] + "\t" + good[20:], "a zero byte after": good + "\x00",
		"four parts": good + ".e30", "two parts": parts[0] + "." + parts[1], "five parts": parts[0] + ".a.b.c.d",
		"three empty parts": strings.Repeat(".", 2) + strings.Repeat(" ", 60),
		"an empty header":   "." + parts[1] + "." + parts[2], "empty claims": parts[0] + ".." + parts[2],
		"JSON serialization": JSON(Object{"payload": parts[1], "signatures": []Object{{"protected": parts[0], "signature": parts[2]}}}),
		"encrypted":          i.encrypted(jose.NONE), "encrypted and compressed": i.encrypted(jose.DEFLATE),
		"a megabyte":       i.Token("RS256", RSA, nil, Object{"pad": strings.Repeat("x", 1<<20)}),
		"over 16 KiB":      i.Token("RS256", RSA, nil, Object{"pad": strings.Repeat("x", 16<<10)}),
		"a megabyte of .":  strings.Repeat(".", 1<<20),
		"garbage":          strings.Repeat("x", 60),
		"a letter changed": parts[0] + "." + flip(parts[1]) + "." + parts[2],
	}
}

// withBoth is a good token whose text needs letters in which the alphabets differ.
func (i *Issuer) withBoth() string {
	for {
		token := i.Token("PS256", RSA, nil, nil)
		if strings.ContainsAny(token, "-_") {
			return token
		}
	}
}

func flip(part string) string {
	if part[10] == 'A' {
		return part[:10] + "B" + part[11:]
	}
	return part[:10] + "A" + part[11:]
}

func (i *Issuer) encrypted(zip jose.CompressionAlgorithm) string {
	to := jose.Recipient{Algorithm: jose.RSA_OAEP_256, Key: i.Keys[RSA].Public(), KeyID: RSA}
	e, err := jose.NewEncrypter(jose.A256GCM, to, (&jose.EncrypterOptions{Compression: zip}).WithType("at+jwt"))
	if err != nil {
		panic(err)
	}
	sealed, err := e.Encrypt([]byte(JSON(i.Claims())))
	if err != nil {
		panic(err)
	}
	text, err := sealed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

func (i *Issuer) signatures() map[string]string {
	good := i.Token("RS256", RSA, nil, nil)
	cut := strings.LastIndex(good, ".") + 1
	elliptical := i.Token("ES256", P256, nil, nil)
	stem := elliptical[:strings.LastIndex(elliptical, ".")+1]
	curve := elliptic.P256()
	zero := new(big.Int)
	n := curve.Params().N
	key, ok := i.Keys[P256].(*ecdsa.PrivateKey)
	if !ok {
		panic("no key of P-256")
	}
	asn1, err := ecdsa.SignASN1(nil, key, make([]byte, 32))
	if err != nil {
		panic(err)
	}
	return map[string]string{
		"an empty signature":                   good[:cut],
		"a signature cut short":                good[:len(good)-8],
		"half a signature":                     good[:cut+(len(good)-cut)/2],
		"another token's signature":            good[:cut] + strings.Split(i.Token("RS256", RSA, nil, Object{"sub": "other"}), ".")[2],
		"ES256 with zeros":                     stem + B64(Pair(curve, zero, zero)),
		"ES256 with r and s equal to n":        stem + B64(Pair(curve, n, n)),
		"ES256 with r of one and s of zero":    stem + B64(Pair(curve, big.NewInt(1), zero)),
		"ES256 in ASN.1":                       stem + B64(asn1),
		"ES256 with a longer signature":        elliptical + "AAAA",
		"EdDSA with zeros":                     i.Sign(JSON(i.Header("EdDSA", Ed25519)), JSON(i.Claims()), "EdDSA", Ed25519)[:0] + strings.Join(strings.Split(i.Token("EdDSA", Ed25519, nil, nil), ".")[:2], ".") + "." + B64(make([]byte, 64)),
		"claims of another token, same header": strings.Split(good, ".")[0] + "." + B64([]byte(JSON(i.Claims().With(Object{"sub": "admin"})))) + good[cut-1:],
	}
}

func (i *Issuer) claims() map[string]string {
	good := func(claims Object) string { return i.Token("RS256", RSA, nil, claims) }
	return map[string]string{
		"another issuer":                  good(Object{"iss": "https://evil.example"}),
		"our issuer with a slash":         good(Object{"iss": i.URL + "/"}),
		"our issuer in capitals":          good(Object{"iss": strings.ToUpper(i.URL)}),
		"our issuer and more":             good(Object{"iss": i.URL + ".evil.example"}),
		"no issuer":                       good(Object{"iss": nil}),
		"an issuer that is a list":        good(Object{"iss": []string{i.URL}}),
		"another audience":                good(Object{"aud": "other-api"}),
		"audiences without ours":          good(Object{"aud": []string{"account", "other-api"}}),
		"no audience":                     good(Object{"aud": nil}),
		"no audiences":                    good(Object{"aud": []string{}}),
		"an audience that begins as ours": good(Object{"aud": i.Audience + "-other"}),
		"our audience among numbers":      good(Object{"aud": []any{i.Audience, 1}}),
		"an audience that is an object":   good(Object{"aud": Object{i.Audience: true}}),
		"no subject":                      good(Object{"sub": nil}),
		"an empty subject":                good(Object{"sub": ""}),
		"a subject of spaces":             good(Object{"sub": "   "}),
		"a subject that is a number":      good(Object{"sub": 1}),
		"a subject with a zero byte":      good(Object{"sub": "subject-1\x00"}),
		"a subject that is too long":      good(Object{"sub": strings.Repeat("s", 256)}),
	}
}

func (i *Issuer) times() map[string]string {
	now := i.Now().Unix()
	good := func(claims Object) string { return i.Token("RS256", RSA, nil, claims) }
	raw := func(exp string) string {
		claims := JSON(i.Claims().With(Object{"exp": "EXP"}))
		return i.Sign(JSON(i.Header("RS256", RSA)), strings.Replace(claims, `"EXP"`, exp, 1), "RS256", RSA)
	}
	return map[string]string{
		"no end":                     good(Object{"exp": nil}),
		"an end that is a text":      good(Object{"exp": "9999999999"}),
		"an end that is null":        raw("null"),
		"an end that is true":        raw("true"),
		"an end beyond an integer":   raw("92233720368547758080"),
		"an end beyond a float":      raw("1e400"),
		"an end with an exponent":    raw("9e9"),
		"an end beyond all times":    raw("99999999999999"),
		"a negative end":             raw("-1"),
		"valid in the future":        good(Object{"nbf": now + 120}),
		"issued in the future":       good(Object{"iat": now + 120}),
		"a beginning that is a text": good(Object{"nbf": "0"}),
		"issued at a text":           good(Object{"iat": "now"}),
	}
}

func (i *Issuer) purposes() map[string]string {
	good := func(header, claims Object) string { return i.Token("RS256", RSA, header, claims) }
	return map[string]string{
		"an ID token":                good(Object{"typ": "JWT"}, Object{"typ": "ID", "aud": []string{"gpuaas-cli", i.Audience}, "nonce": "n"}),
		"an ID token without a typ":  good(Object{"typ": "JWT"}, Object{"typ": nil, "at_hash": "abc"}),
		"an ID token by its nonce":   good(nil, Object{"nonce": "n"}),
		"an ID token by its c_hash":  good(nil, Object{"c_hash": "abc"}),
		"a refresh token":            good(nil, Object{"typ": "Refresh"}),
		"an offline token":           good(nil, Object{"typ": "Offline"}),
		"a logout token":             good(Object{"typ": "logout+jwt"}, nil),
		"a logout token by a claim":  good(nil, Object{"events": Object{"http://schemas.openid.net/event/backchannel-logout": Object{}}}),
		"no type":                    good(Object{"typ": nil}, nil),
		"a type that is a number":    good(Object{"typ": 1}, nil),
		"another type":               good(Object{"typ": "dpop+jwt"}, nil),
		"a token bound to a key":     good(nil, Object{"cnf": Object{"jkt": "abc"}}),
		"a claim typ that is a list": good(nil, Object{"typ": []string{"Bearer"}}),
	}
}
