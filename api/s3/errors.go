package s3

import (
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// faults has the codes of S3 for our codes. All others are internal errors.
var faults = map[errs.Code]fault.Code{
	errs.StorageObjectNotFound: fault.NoSuchKey,
	errs.NotFound:              fault.NoSuchBucket,
	errs.StoragePathTraversal:  fault.InvalidArgument,
	errs.ValidationError:       fault.InvalidArgument,
	errs.BadRequest:            fault.IncompleteBody,
	errs.AlreadyExists:         fault.InvalidRequest,
	errs.Conflict:              fault.InvalidRequest,
	errs.VersionMismatch:       fault.PreconditionFailed,
	errs.StorageQuotaExceeded:  fault.QuotaExceeded,
	errs.InsufficientBalance:   fault.QuotaExceeded,
	errs.BodyTooLarge:          fault.EntityTooLarge,
	errs.Forbidden:             fault.AccessDenied,
	errs.RateLimited:           fault.SlowDown,
	errs.Unavailable:           fault.ServiceUnavailable,
	errs.LimiterUnavailable:    fault.ServiceUnavailable,
}

// faultOf returns the error of S3 for an error. The message of an internal error stays in the log.
func faultOf(err error) *fault.Error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		if code, known := faults[e.Code]; known {
			return fault.New(code, "%s", e.Message).Because(err)
		}
	}
	return fault.New(fault.InternalError, "We encountered an internal error. Please try again.").Because(err)
}

func preconditionFailed() *fault.Error {
	return fault.New(fault.PreconditionFailed, "A precondition of the request is not fulfilled.")
}

type errorBody struct {
	XMLName   xml.Name `xml:"Error"`
	Code      fault.Code
	Message   string
	Resource  string
	Region    string `xml:",omitempty"`
	RequestID string `xml:"RequestId"`
}

// writeFault writes an error. The rest of a body that was not read ends the connection.
func writeFault(w http.ResponseWriter, r *http.Request, e *fault.Error) {
	h := w.Header()
	for _, name := range []string{"Content-Length", "Content-Range", "Content-Disposition", "Etag", "Last-Modified", "Accept-Ranges", "Repr-Digest", "X-Amz-Checksum-Sha256", "X-Amz-Checksum-Type"} {
		h.Del(name)
	}
	maps.DeleteFunc(h, func(name string, _ []string) bool { return strings.HasPrefix(name, strings.ToLower(metadataPrefix)) })
	if e.Code == fault.SlowDown || e.Code == fault.ServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	h.Set("Content-Type", "application/xml")
	w.WriteHeader(e.Status())
	if r.Method == http.MethodHead {
		return
	}
	body, err := xml.Marshal(errorBody{Code: e.Code, Message: e.Message, Resource: r.URL.Path, Region: e.Region, RequestID: h.Get("X-Amz-Request-Id")})
	if err == nil {
		_, _ = io.WriteString(w, xml.Header+string(body))
	}
}

// reply writes an XML body.
func (c *call) reply(body any) error {
	text, err := xml.Marshal(body)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/xml")
	c.w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(c.w, xml.Header+string(text)) //nolint:gosec // the XML is escaped; a client that does not read it needs no error
	return nil
}

// maxXML bounds the body of a request in XML.
const maxXML = 2 << 20

// read decodes a body in XML.
func (c *call) read(into any) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	if body.Size > maxXML {
		return fault.New(fault.EntityTooLarge, "The body may have %d bytes.", maxXML)
	}
	text, err := io.ReadAll(io.LimitReader(body, maxXML+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxXML:
		return fault.New(fault.EntityTooLarge, "The body may have %d bytes.", maxXML)
	}
	if err := xml.Unmarshal(text, into); err != nil {
		return fault.New(fault.MalformedXML, "The XML you provided was not well-formed or did not validate against our published schema").Because(err)
	}
	return nil
}
