package rest

import (
	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/api/rest/reference"
	"github.com/gpuaas/gpuaas/api/rest/response"
)

// Contract is the parsed contract of the API with its pages. A process reads it once, because parsing and rendering need
// most of the time of a start. No Server changes or references it afterwards.
type Contract struct {
	Document *openapi3.T
	pages    reference.Pages
}

// ReadContract parses the embedded contract.
func ReadContract() (*Contract, error) {
	doc, err := openapi.Document()
	if err != nil {
		return nil, err
	}
	pages, err := reference.New(doc, response.StatusOf)
	return &Contract{doc, pages}, err
}
