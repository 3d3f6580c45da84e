package matrix_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// What every project has, and no cell changes.
const sharedFile, sharedFolder = "shared.txt", "shared"

// ofFile is the slot of the file that a cell changes.
var ofFile = slot{in: "file"}

func isStorage(o openapi.Operation) bool { return o.Tags[0] == "Storage" }

// takesBytes reports whether the body is a file.
func takesBytes(o openapi.Operation) bool { return o.Extensions["x-stream"] != nil }

// usesFile reports whether an operation changes an existing file.
func usesFile(o openapi.Operation) bool {
	return slices.Contains([]string{"renameStorage", "copyStorage", "deleteStorage"}, o.OperationID)
}

// audits returns the number of audit rows of a change. Changes of files are those of a tenant in its own data; only what
// removes and restores them is recorded.
func audits(o openapi.Operation) int64 {
	if slices.Contains([]string{"uploadStorage", "createStorageFolder", "renameStorage", "copyStorage", "createStorageUpload", "uploadStoragePart", "completeStorageUpload", "abortStorageUpload"}, o.OperationID) {
		return 0
	}
	return 1
}

// addPaths names the file that an operation reads or changes, and new paths.
func (w *fixture) addPaths(o openapi.Operation, r *request, body map[string]any, ids map[slot]string) {
	if !isStorage(o) {
		return
	}
	file := ids[ofFile]
	if file == "" {
		file = sharedFile
	}
	r.header.Del("If-Match") // it requires a file at the new path
	switch o.OperationID {
	case "renameStorage", "copyStorage":
		body["from"], body["to"] = file, w.unique("moved")
	case "signStorageUrl":
		body["path"] = file
	case "downloadSignedStorage":
		r.path += "?grant=forged"
	case "uploadSignedStorage":
		r.path += "?grant=forged"
		r.body = []byte("a file")
	case "downloadStorageFolder":
		r.path += "?prefix=" + sharedFolder
	case "createStorageFolder":
		body["path"] = w.unique("folder")
	case "restoreStorage":
		body["path"] = w.unique("restored")
	case "createStorageUpload":
		body["path"], body["size_bytes"] = w.unique("uploaded"), len(aPart)
	case "signStorageParts":
		body["parts"] = []any{map[string]any{"number": 1, "size_bytes": len(aPart), "sha256": strings.Repeat("0", 64)}}
	case "uploadStoragePart":
		r.body = []byte(aPart)
		r.header.Set("Content-Type", "application/octet-stream")
	case "uploadStorage":
		r.path += "?path=" + url.QueryEscape(w.unique("uploaded"))
		r.body = []byte("a file")
		r.header.Set("Content-Type", "text/plain")
	case "statStorage", "downloadStorage", "deleteStorage":
		r.path += "?path=" + url.QueryEscape(file)
	}
}

// shareFile uploads the file that every project has.
func (w *fixture) shareFile(s *side) {
	header := s.owner.header()
	header.Set("X-Project-ID", s.project.String())
	header.Set("Content-Type", "text/plain")
	if got := w.send(request{method: "PUT", path: "/api/v1/storage/upload?path=" + sharedFile, header: header, body: []byte("shared")}); got.status != 201 {
		w.Fatalf("uploading a file: %d %s", got.status, got.body)
	}
	header.Set("Content-Type", "application/json")
	if got := w.send(request{method: "POST", path: "/api/v1/storage/mkdir", header: header, body: []byte(`{"path":"` + sharedFolder + `"}`)}); got.status != 201 {
		w.Fatalf("creating a folder: %d %s", got.status, got.body)
	}
}

// aPart is the only part of every upload.
const aPart = "a part"

// startedUpload begins an upload, and sends its part.
func (w *fixture) startedUpload(s *side) string {
	header := s.owner.header()
	header.Set("X-Project-ID", s.project.String())
	header.Set("Content-Type", "application/json")
	got := w.send(request{method: "POST", path: "/api/v1/storage/uploads", header: header, body: fmt.Appendf(nil, `{"path":%q,"size_bytes":%d}`, w.unique("uploaded"), len(aPart))})
	id := field(got.body, "id")
	header.Set("Content-Type", "application/octet-stream")
	if put := w.send(request{method: "PUT", path: "/api/v1/storage/uploads/" + id + "/parts/1", header: header, body: []byte(aPart)}); put.status != 200 {
		w.Fatalf("sending a part: %d %s after %s", put.status, put.body, got.body)
	}
	return id
}

// file inserts a file without bytes, and returns its path.
func (w *fixture) file(s *side, name string) string {
	name = strings.ToLower(w.unique(name))
	w.sql(`INSERT INTO storage_objects (id, org_id, project_id, parent_id, name, folded, type, object_key) VALUES ($1, $2, $3, $3, $4, $4, 'file', $1)`, id(), s.tenant, s.project, name)
	w.sql(`UPDATE storage_usage SET objects = objects + 1 WHERE scope_id IN ($1, $2)`, s.tenant, s.project)
	return name
}

// deletedFile inserts a file that can be restored.
func (w *fixture) deletedFile(s *side, made uuid.UUID) {
	w.sql(`INSERT INTO storage_objects (id, org_id, project_id, parent_id, name, folded, type, object_key, deleted_at, purge_at, deleted_path)
		VALUES ($1, $2, $3, $3, 'deleted', 'deleted', 'file', $1, now(), now() + interval '1 day', 'deleted')`, made, s.tenant, s.project)
	w.sql(`UPDATE storage_usage SET objects = objects + 1 WHERE scope_id IN ($1, $2)`, s.tenant, s.project)
}

// join adds a parameter to a path.
func join(path, parameter string) string {
	if strings.Contains(path, "?") {
		return path + "&" + parameter
	}
	return path + "?" + parameter
}
