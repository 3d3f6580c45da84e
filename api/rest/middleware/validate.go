package middleware

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/patience"
)

// validate checks the request against the contract: unknown query parameters, then the known
// parameters, then the body. An error names the field as the client sent it.
func (s *Chain) validate(c *gin.Context, r *request.Call) error {
	if err := checkQuery(c.Request, r.Op); err != nil {
		return err
	}
	if err := checkParameters(c, r.Op); err != nil {
		return err
	}
	if r.Op.Stream && c.Request.Body != nil {
		c.Request.Body = &patience.Body{ReadCloser: c.Request.Body, Deadlines: patience.Deadlines{Control: http.NewResponseController(c.Writer), Clock: s.Clock}}
	}
	return checkBody(c.Request, r)
}

func checkQuery(req *http.Request, op *request.Operation) error {
	if req.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return errs.Invalid("query", "is not well-formed") // net/url would silently drop malformed parts
	}
	names := make([]string, 0, len(query))
	for name, values := range query {
		if op.Query[name] && len(values) > 1 {
			return errs.Invalid(name, "is given %d times", len(values))
		}
		if op.Query[name] && !storable(values[0]) {
			return errs.Invalid(name, "%s", unstorable)
		}
		if !op.Query[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names) // the same response for the same request
	// Public operations have no 401 in their contract.
	if name := names[0]; !op.Public && (name == "token" || name == "access_token") {
		return errs.New(errs.TokenInURL, "a token was sent in the URL").At(name).
			Try("send it in the Authorization header, and replace it: URLs end up in logs")
	}
	return errs.New(errs.UnknownParameter, "the operation has no parameter %q", names[0]).At(names[0])
}

const unstorable = "contains a control character"

// storable reports whether PostgreSQL can store a text. It rejects zero bytes and invalid UTF-8,
// which would otherwise result in a server error although the client is at fault.
func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// checkParameters checks the parameters that are present or required.
func checkParameters(c *gin.Context, op *request.Operation) error {
	for _, v := range c.Params {
		if !storable(v.Value) {
			return errs.Invalid(v.Key, "%s", unstorable)
		}
	}
	var input *openapi3filter.RequestValidationInput
	for _, p := range op.Parameters {
		if !given(c, p) && !p.Required || plainlyValid(op, c, p) {
			continue
		}
		if p.In == openapi3.ParameterInQuery && c.Request.URL.Query().Has(p.Name) && c.Query(p.Name) == "" {
			return errs.Invalid(p.Name, "is empty").Try("give a value, or leave the parameter out")
		}
		if input == nil {
			input = &openapi3filter.RequestValidationInput{
				Request: c.Request, Route: op.Route, PathParams: make(map[string]string, len(c.Params)), QueryParams: c.Request.URL.Query(),
			}
			for _, v := range c.Params {
				input.PathParams[v.Key] = v.Value
			}
		}
		if err := openapi3filter.ValidateParameter(c.Request.Context(), input, p.Parameter); err != nil {
			return errs.Invalid(p.Name, "%s", ofParameter(p.Schema.Value, plain(err)))
		}
	}
	return nil
}

// plainlyValid recognises the most frequent valid values without the validator: an ID in the path,
// and a header with bounds on its length only. The validator compiles the schema again for every
// value. Other values go to the validator, which also formats the error.
func plainlyValid(op *request.Operation, c *gin.Context, p request.Parameter) bool {
	switch p.In {
	case openapi3.ParameterInPath:
		id := c.Param(p.Name)
		return p.Schema.Value.Format == "uuid" && len(id) == 36 && uuid.Validate(id) == nil
	case openapi3.ParameterInHeader:
		b, ok := op.Bounded[p.Name]
		values := c.Request.Header[p.Header]
		if !ok || len(values) != 1 {
			return false
		}
		n := uint64(utf8.RuneCountInString(values[0])) //nolint:gosec // a count
		return n >= b.Least && n <= b.Most
	}
	return false
}

func given(c *gin.Context, p request.Parameter) bool {
	switch p.In {
	case openapi3.ParameterInHeader:
		return len(c.Request.Header[p.Header]) > 0
	case openapi3.ParameterInQuery:
		return c.Request.URL.RawQuery != ""
	}
	return true
}

// checkBody reads and validates the body. The handler receives the validated value, so that the
// body is not decoded a second time in a different way.
func checkBody(req *http.Request, r *request.Call) error {
	if r.Op.Signed {
		return takeSigned(req, r)
	}
	if r.Op.Stream {
		return checkCoding(req.Header.Get("Content-Encoding"))
	}
	data, err := read(req)
	if err != nil {
		return err
	}
	r.Body = data
	op := r.Op
	switch {
	case op.Body == nil && len(data) > 0 && string(bytes.TrimSpace(data)) != "{}":
		return errs.Invalid("body", "the operation has no body")
	case op.Body == nil:
		return nil
	case len(data) == 0 && op.Body.Required:
		return errs.Invalid("body", "is missing")
	case len(data) == 0:
		req.Body = http.NoBody
		return nil
	}
	if err := checkMediaType(req.Header.Get("Content-Type")); err != nil {
		return err
	}
	if err := checkCoding(req.Header.Get("Content-Encoding")); err != nil {
		return err
	}
	value, err := DecodeExact(data)
	if err != nil {
		return err
	}
	if err := op.Schema.VisitJSON(value, openapi3.VisitAsRequest(), checkUUIDs); err != nil {
		return invalid(err, exampleOf(op))
	}
	req.Body = checked{bytes.NewReader(data), value}
	return nil
}

// maxSigned limits the body of a webhook. The largest events of payment providers have about 100
// KiB.
const maxSigned = 256 << 10

// takeSigned passes the body on without decoding it. The signature covers its bytes, so the code
// that verifies the signature also decodes them.
func takeSigned(req *http.Request, r *request.Call) error {
	if req.ContentLength > maxSigned {
		return tooLarge(maxSigned)
	}
	if err := checkCoding(req.Header.Get("Content-Encoding")); err != nil {
		return err
	}
	if req.Body != nil {
		req.Body = http.MaxBytesReader(nil, req.Body, maxSigned)
	}
	data, err := read(req)
	if err == nil && len(data) == 0 {
		err = errs.Invalid("body", "is missing")
	}
	r.Body, req.Body = data, http.NoBody
	return err
}

func read(req *http.Request) ([]byte, error) {
	if req.ContentLength == 0 || req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	var buf bytes.Buffer
	if req.ContentLength > 0 {
		buf.Grow(int(req.ContentLength) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(req.Body); err != nil {
		if most, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, tooLarge(most.Limit)
		}
		return nil, errs.New(errs.BadRequest, "the body broke off").Because(err)
	}
	return buf.Bytes(), nil
}

// checkUUIDs enables the format uuid in the validator, which the library does not check by default.
var checkUUIDs = openapi3.WithStringFormatValidator("uuid", openapi3.NewCallbackValidator(uuid.Validate))

// checkMediaType treats a body without a media type as JSON, because the operations accept no other
// type.
func checkMediaType(header string) error {
	if header == "" || header == "application/json" {
		return nil
	}
	media, _, err := mime.ParseMediaType(header)
	if err != nil || media != "application/json" {
		return errs.New(errs.MediaTypeUnsupported, "the body is %s", strconv.Quote(header)).Try("send application/json")
	}
	return nil
}

// checkCoding rejects compressed bodies, because a small body could decompress to more than any
// limit.
func checkCoding(header string) error {
	if header == "" || header == "identity" {
		return nil
	}
	return errs.New(errs.MediaTypeUnsupported, "the body is encoded as %s", strconv.Quote(header)).Try("send it as it is")
}

// zeroByte returns the field whose name or value contains a zero byte. The decoder has already
// replaced invalid UTF-8.
func zeroByte(value any, path string) (string, bool) {
	switch v := value.(type) {
	case string:
		return path, !storable(v)
	case []any:
		for i, e := range v {
			if at, bad := zeroByte(e, join(path, strconv.Itoa(i))); bad {
				return at, true
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !storable(name) {
				return cmp.Or(path, "body"), true
			}
			if at, bad := zeroByte(v[name], join(path, name)); bad {
				return at, true
			}
		}
	}
	return "", false
}

// checked is a validated body. The generated server uses ValidatedValue instead of decoding the
// bytes again.
type checked struct {
	*bytes.Reader
	value any
}

func (checked) Close() error          { return nil }
func (b checked) ValidatedValue() any { return b.value }

// invalid turns a finding about the body into an error that names the field. example is a body of the contract.
func invalid(err error, example any) error {
	var found *openapi3.SchemaError
	if !errors.As(err, &found) {
		return errs.Invalid("body", "%s", plain(err))
	}
	path := strings.Join(found.JSONPointer(), ".")
	// The finding about an unknown field points at the object that contains it.
	if extra := unknownField(found); extra != "" {
		return errs.Invalid(join(path, extra), "the field is unknown")
	}
	if path == "" {
		path = "body"
	}
	if found.SchemaField == "required" {
		return errs.Invalid(path, "is missing%s", valueIn(example, found.JSONPointer()))
	}
	return errs.Invalid(path, "%s", sentence(found))
}

func unknownField(found *openapi3.SchemaError) string {
	object, ok := found.Value.(map[string]any)
	if !ok || found.SchemaField != "properties" {
		return ""
	}
	var extra []string
	for name := range object {
		if found.Schema.Properties[name] == nil {
			extra = append(extra, name)
		}
	}
	if len(extra) == 0 {
		return ""
	}
	return slices.Min(extra)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// plain returns the finding without the schema and the value that the library adds.
func plain(err error) string {
	var found *openapi3.SchemaError
	if errors.As(err, &found) && found.Reason != "" {
		// For a parameter it is another library's list, one finding to a line.
		if _, finding, listed := strings.Cut(found.Reason, "\n- at '"); listed {
			_, finding, _ = strings.Cut(finding, ": ")
			finding, _, _ = strings.Cut(finding, "\n")
			return finding
		}
		return found.Reason
	}
	if parse, ok := errors.AsType[*openapi3filter.ParseError](err); ok {
		return fmt.Sprintf("is not well-formed: %s", parse.Reason)
	}
	if strings.HasPrefix(err.Error(), malformedParameter) {
		return "is not well-formed" // the rest is about our types
	}
	var parameter *openapi3filter.RequestError
	if errors.As(err, &parameter) && parameter.Err != nil {
		return parameter.Err.Error()
	}
	return err.Error()
}

// malformedParameter is the start of the generated server's message about a parameter.
const malformedParameter = "Invalid format for parameter "

// fieldOf returns the name of the parameter in an error of the generated server.
func fieldOf(err error) string {
	if _, rest, found := strings.Cut(err.Error(), malformedParameter); found {
		name, _, _ := strings.Cut(rest, ":")
		return name
	}
	return "body"
}

// BadRequest responds when the generated server cannot decode the request. The middleware has
// validated the request before, so this happens only where the contract is less strict than the
// generated code.
func (s *Chain) BadRequest(c *gin.Context, err error) {
	var e *errs.Error
	if !errors.As(err, &e) {
		e = errs.New(errs.ValidationError, "%s", plain(err)).At(fieldOf(err))
	}
	s.Fail(c, e)
}

// DecodeExact reads exactly one JSON value.
func DecodeExact(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, errs.Invalid("body", "is not JSON, near byte %d", d.InputOffset())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errs.Invalid("body", "has data after its JSON value, at byte %d", d.InputOffset())
	}
	if at, bad := zeroByte(value, ""); bad {
		return nil, errs.Invalid(at, "%s", unstorable)
	}
	return value, nil
}
