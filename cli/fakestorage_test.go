package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
)

// storageFake has the files of one project. Folders exist while a file is below them, or where they were created.
type storageFake struct {
	files   map[string]string
	folders map[string]bool
	uploads map[string]*fakeUpload
	// received is the number of parts that were sent, and most the number after which sending is denied; 0: any.
	received, most int
	keys           []oapi.StorageKey
}

type fakeUpload struct {
	shown oapi.StorageUpload
	parts map[int]string
}

func (f *fake) storage(w http.ResponseWriter, r *http.Request, operation string, params map[string]string) bool {
	if operation == "listStorageClasses" {
		f.page(w, r, []any{oapi.StorageClass{Name: "standard", DisplayName: "Standard", Price: oapi.Money{AmountMinor: 3, Currency: "EUR"}, FreeGib: 5, RetentionDays: 14, Default: true}}, 50)
		return true
	}
	if operation == "listStorageFaults" {
		f.storageFaults(w, r)
		return true
	}
	if !strings.HasPrefix(r.URL.Path, "/api/v1/storage/") {
		return false
	}
	s := &f.files
	if s.files == nil {
		s.files, s.folders, s.uploads = map[string]string{}, map[string]bool{}, map[string]*fakeUpload{}
	}
	at := r.URL.Query().Get("path")
	var body struct {
		Path, From, To string
		Method, Name   string
		ExpiresSeconds int  `json:"expires_seconds"`
		ReadOnly       bool `json:"read_only"`
		Prefix         *string
		Sha256         *string
		SizeBytes      int64 `json:"size_bytes"`
		PartSizeBytes  int64 `json:"part_size_bytes"`
		Parts          []oapi.StoragePartRequest
	}
	if r.Header.Get("Content-Type") == "application/json" {
		_ = json.NewDecoder(r.Body).Decode(&body)
	}
	u := s.uploads[params["id"]]
	switch operation {
	case "listStorage":
		f.page(w, r, toAny(s.list(r.URL.Query().Get("prefix"), r.URL.Query().Get("recursive") == "true")), 2)
	case "statStorage":
		if o, ok := s.object(at); ok {
			w.Header().Set("ETag", o.Etag)
			reply(w, http.StatusOK, o)
			return true
		}
		f.problem(w, r, http.StatusNotFound, "storage_object_not_found", "there is no such object", nil)
	case "downloadStorage":
		f.download(w, r, s.files[at])
	case "signStorageUrl":
		method := oapi.StorageSignedUrlMethod(cmp.Or(body.Method, "GET"))
		reply(w, http.StatusOK, oapi.StorageSignedUrl{Url: "https://files.example/signed?grant=" + body.Path, Method: method, ExpiresAt: birth.Add(time.Duration(cmp.Or(body.ExpiresSeconds, 300)) * time.Second)})
	case "createStorageKey":
		w.Header().Set("Location", "/api/v1/storage/keys/"+uuid.NewString())
		s.keys = append(s.keys, oapi.StorageKey{Id: uuid.New(), Name: body.Name, AccessKeyId: "GPUA0000000000000001", Prefix: body.Prefix, ReadOnly: body.ReadOnly})
		reply(w, http.StatusCreated, oapi.CreatedStorageKey{Name: body.Name, AccessKeyId: "GPUA0000000000000001", SecretAccessKey: "gpo_secret", Prefix: body.Prefix, ReadOnly: body.ReadOnly, Endpoint: endpointOf(body.Name)})
	case "listStorageKeys":
		f.page(w, r, toAny(s.keys), 50)
	case "deleteStorageKey":
		s.keys = nil
		w.WriteHeader(http.StatusNoContent)
	case "uploadStorage":
		text, _ := io.ReadAll(r.Body)
		if !slices.Contains(r.Header.Values("Content-Digest"), "sha-256=:"+base64Sum(string(text))+":") {
			f.t.Errorf("%s: Content-Digest is %q", at, r.Header.Get("Content-Digest"))
		}
		s.files[at] = string(text)
		f.stored(w, http.StatusCreated, at)
	case "createStorageFolder":
		s.folders[body.Path] = true
		f.stored(w, http.StatusCreated, body.Path)
	case "renameStorage", "copyStorage":
		for p, text := range maps.Clone(s.files) {
			if rest, ok := strings.CutPrefix(p, body.From); ok && (rest == "" || rest[0] == '/') {
				if s.files[body.To+rest] = text; operation == "renameStorage" {
					delete(s.files, p)
				}
			}
		}
		f.stored(w, map[string]int{"renameStorage": http.StatusOK, "copyStorage": http.StatusCreated}[operation], body.To)
	case "deleteStorage":
		o, _ := s.object(at)
		delete(s.folders, at)
		maps.DeleteFunc(s.files, func(p, _ string) bool { return p == at || strings.HasPrefix(p, at+"/") })
		reply(w, http.StatusOK, o)
	case "getStorageUsage":
		usage := oapi.StorageUsage{QuotaBytes: 1000, QuotaObjects: 10, Objects: int64(len(s.files))}
		reply(w, http.StatusOK, usage)
	case "listStorageUploads":
		open := []any{}
		for _, id := range output.SortedKeys(s.uploads) {
			open = append(open, s.uploads[id].shown)
		}
		f.page(w, r, open, 50)
	case "createStorageUpload":
		id := uuid.New()
		u = &fakeUpload{oapi.StorageUpload{Id: id, Urn: "u", UpdatedAt: birth, Path: body.Path, SizeBytes: &body.SizeBytes, PartSizeBytes: &body.PartSizeBytes, Sha256: body.Sha256, State: "open", CreatedBy: "user:x", CreatedAt: birth, ExpiresAt: birth}, map[int]string{}}
		s.uploads[id.String()] = u
		w.Header().Set("Location", "/api/v1/storage/uploads/"+id.String())
		reply(w, http.StatusCreated, u.shown)
	case "abortStorageUpload":
		delete(s.uploads, params["id"])
		w.WriteHeader(http.StatusNoContent)
	case "listStorageUploadParts":
		parts := []any{}
		for _, n := range slices.Sorted(maps.Keys(u.parts)) {
			parts = append(parts, oapi.StoragePart{Number: n, SizeBytes: int64(len(u.parts[n])), Sha256: hexSum(u.parts[n]), Etag: "e", StoredAt: birth})
		}
		f.page(w, r, parts, 50)
	case "signStorageParts":
		targets := oapi.StoragePartTargets{}
		for _, p := range body.Parts {
			sum, _ := hex.DecodeString(p.Sha256)
			targets.Targets = append(targets.Targets, oapi.StoragePartTarget{
				Number: p.Number, Method: "PUT", Url: fmt.Sprintf("/api/v1/storage/uploads/%s/parts/%d", u.shown.Id, p.Number), Headers: map[string]string{"Content-Digest": "sha-256=:" + encode64(sum) + ":"},
			})
		}
		reply(w, http.StatusOK, targets)
	case "uploadStoragePart":
		f.putPart(w, r, u, params)
	case "completeStorageUpload":
		text := strings.Join(slices.Collect(sorted(u.parts)), "")
		if hexSum(text) != *u.shown.Sha256 {
			f.problem(w, r, http.StatusConflict, "conflict", "parts have not arrived", nil)
			return true
		}
		s.files[u.shown.Path] = text
		delete(s.uploads, params["id"])
		f.stored(w, http.StatusOK, u.shown.Path)
	default:
		return false
	}
	return true
}

// storageFaults has an empty page before the one with differences. A project has none.
func (f *fake) storageFaults(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("project") != "" {
		reply(w, http.StatusOK, oapi.StorageFaultList{Items: []oapi.StorageFault{}})
		return
	}
	if q.Get("cursor") == "" {
		reply(w, http.StatusOK, oapi.StorageFaultList{Items: []oapi.StorageFault{}, NextCursor: new("next")})
		return
	}
	object, tenant, project := id(71), id(72), id(73)
	reply(w, http.StatusOK, oapi.StorageFaultList{Items: []oapi.StorageFault{
		{Fault: "damaged", ObjectKey: id(70), SizeBytes: 12, Files: 2, ObjectId: &object, TenantId: &tenant, ProjectId: &project},
		{Fault: "unknown", ObjectKey: id(74), SizeBytes: 7},
	}})
}

func (f *fake) putPart(w http.ResponseWriter, r *http.Request, u *fakeUpload, params map[string]string) {
	if f.files.most > 0 && f.files.received >= f.files.most {
		f.problem(w, r, http.StatusForbidden, "forbidden", "no more parts", nil)
		return
	}
	f.files.received++
	number, _ := strconv.Atoi(params["number"])
	text, _ := io.ReadAll(r.Body)
	u.parts[number] = string(text)
	reply(w, http.StatusOK, oapi.StoragePart{Number: number, SizeBytes: int64(len(text)), Sha256: hexSum(string(text)), Etag: "e", StoredAt: birth})
}

// download responds with the rest of a file. The first response to a file that begins with "breaks" ends early.
func (f *fake) download(w http.ResponseWriter, r *http.Request, text string) {
	from, status := 0, http.StatusOK
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
		status = http.StatusPartialContent
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(text)-1, len(text)))
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+hexSum(text)[:32]+`"`)
	w.Header().Set("Content-Disposition", "attachment")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text[from:])
}

func (f *fake) stored(w http.ResponseWriter, status int, at string) {
	o, _ := f.files.object(at)
	w.Header().Set("ETag", o.Etag)
	if status == http.StatusCreated {
		w.Header().Set("Location", "/api/v1/storage/stat?path="+at)
	}
	reply(w, status, o)
}

// object returns the file or the folder of a path.
func (s *storageFake) object(at string) (oapi.StorageObject, bool) {
	o := oapi.StorageObject{Id: uuid.NewSHA1(uuid.Nil, []byte(at)), Urn: "u", Path: at, Name: at[strings.LastIndexByte(at, '/')+1:], Type: "folder", Etag: `"f"`, CreatedBy: "user:x", CreatedAt: birth, UpdatedAt: birth}
	if text, ok := s.files[at]; ok {
		sum := hexSum(text)
		o.Type, o.SizeBytes, o.Sha256, o.Etag = "file", int64(len(text)), &sum, `"`+sum[:32]+`"`
		return o, true
	}
	for p := range s.files {
		if strings.HasPrefix(p, at+"/") {
			return o, true
		}
	}
	return o, s.folders[at]
}

// list returns the objects of a folder by path.
func (s *storageFake) list(folder string, recursive bool) (all []oapi.StorageObject) {
	paths := map[string]bool{}
	add := func(p string) {
		for i := range len(p) + 1 {
			if i == len(p) || p[i] == '/' {
				paths[p[:i]] = true
			}
		}
	}
	for p := range s.files {
		add(p)
	}
	for p := range s.folders {
		add(p)
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		rest, below := p, true
		if folder != "" {
			rest, below = strings.CutPrefix(p, folder+"/")
		}
		if below && (recursive || !strings.Contains(rest, "/")) {
			o, _ := s.object(p)
			all = append(all, o)
		}
	}
	return all
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func encode64(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

func base64Sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return encode64(sum[:])
}

// sorted returns the values of a map in the sequence of its keys.
func sorted(parts map[int]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, n := range slices.Sorted(maps.Keys(parts)) {
			if !yield(parts[n]) {
				return
			}
		}
	}
}

// endpointOf is the URL of the S3 endpoint: this installation knows it, but not for a key with the name unknown.
func endpointOf(name string) *string {
	if name == "unknown" {
		return nil
	}
	return new("https://s3.example")
}
