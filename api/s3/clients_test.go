package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// tool is an S3 tool with its environment.
type tool struct {
	t      *testing.T
	f      *fixture
	binary string
	env    []string
	dir    string // has the files small, big and tree
}

// newTool skips the test where a tool is not installed: make test-s3-clients installs it.
func newTool(t *testing.T, binary string) *tool {
	t.Helper()
	path, err := exec.LookPath(binary)
	if err != nil {
		t.Skipf("%s is not installed: run make test-s3-clients", binary)
	}
	f := setup(t)
	x := &tool{t: t, f: f, binary: path, dir: t.TempDir()}
	x.env = []string{
		"HOME=" + x.dir, "PATH=" + os.Getenv("PATH"), "AWS_ACCESS_KEY_ID=" + f.owner.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + f.owner.Secret, "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_ENDPOINT_URL=" + f.url.String(), "S3_ENDPOINT_URL=" + f.url.String(), "AWS_EC2_METADATA_DISABLED=true",
		"RCLONE_CONFIG_GPU_TYPE=s3", "RCLONE_CONFIG_GPU_PROVIDER=Other", "RCLONE_CONFIG_GPU_ENV_AUTH=true", "RCLONE_CONFIG_GPU_ENDPOINT=" + f.url.String(), "RCLONE_CONFIG_GPU_FORCE_PATH_STYLE=true",
	}
	x.write(".config/rclone/rclone.conf", 0)
	x.write("small", 1000)
	x.write("big", 21<<20)
	x.write("tree/a b+ü.txt", 10)
	x.write("tree/sub/c", 0)
	x.write("tree/sub/d", 5000)
	return x
}

func (x *tool) write(name string, size int) {
	x.t.Helper()
	body := make([]byte, size)
	random := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = random.Read(body)
	path := filepath.Join(x.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(path, body, 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// try runs the tool in the folder with the files.
func (x *tool) try(arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(x.t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, x.binary, arguments...)
	c.Env, c.Dir = x.env, x.dir
	out, err := c.CombinedOutput()
	return string(out), err
}

func (x *tool) run(arguments ...string) string {
	x.t.Helper()
	out, err := x.try(arguments...)
	if err != nil {
		x.t.Fatalf("%s %s: %v\n%s", filepath.Base(x.binary), strings.Join(arguments, " "), err, out)
	}
	return out
}

// same compares two files of the folder.
func (x *tool) same(one, other string) {
	x.t.Helper()
	if !bytes.Equal(x.sum(one), x.sum(other)) {
		x.t.Errorf("%s and %s differ", one, other)
	}
}

func (x *tool) sum(name string) []byte {
	x.t.Helper()
	body, err := os.ReadFile(filepath.Join(x.dir, filepath.FromSlash(name)))
	if err != nil {
		x.t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	return sum[:]
}

// stored compares the keys of the bucket.
func (x *tool) stored(want ...string) {
	x.t.Helper()
	got := strings.Split(x.f.listed(x.f.client(x.f.owner), minio.ListObjectsOptions{Recursive: true}), " ")
	if got[0] == "" {
		got = nil
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("the bucket has %q, want %q", got, want)
	}
}

func clientsOf(t *testing.T, name string) string {
	t.Helper()
	if dir := os.Getenv("GPUAAS_TEST_S3_CLIENTS"); dir != "" {
		return filepath.Join(dir, "bin", name)
	}
	return "gpuaas-no-such-tool-" + name
}

func TestRealClientsAWS(t *testing.T) {
	t.Parallel()
	x := newTool(t, clientsOf(t, "aws"))
	x.run("s3", "cp", "small", "s3://default/x/small")
	x.run("s3", "cp", "big", "s3://default/x/big") // in parts
	x.run("s3", "cp", "s3://default/x/small", "small.2")
	x.run("s3", "cp", "s3://default/x/big", "big.2")
	x.same("small", "small.2")
	x.same("big", "big.2")
	x.run("s3", "sync", "tree", "s3://default/tree")
	if again := x.run("s3", "sync", "tree", "s3://default/tree"); again != "" {
		t.Errorf("a second sync has copied: %s", again)
	}
	x.run("s3", "sync", "s3://default/tree", "tree.2")
	x.same("tree/sub/d", "tree.2/sub/d")
	x.same("tree/a b+ü.txt", "tree.2/a b+ü.txt")
	if out := x.run("s3", "ls", "s3://default/tree/"); !strings.Contains(out, "PRE sub/") || !strings.Contains(out, "a b+ü.txt") {
		t.Errorf("listed %s", out)
	}
	if out := x.run("s3", "ls"); !strings.Contains(out, bucket) {
		t.Errorf("listed %s", out)
	}
	x.run("s3", "mv", "s3://default/x/small", "s3://default/y/small")
	for _, algorithm := range []string{"CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME"} {
		if out, err := x.try("s3api", "put-object", "--bucket", bucket, "--key", "sums/"+algorithm, "--body", "small", "--checksum-algorithm", algorithm); err != nil && !strings.Contains(out, "botocore[crt]") {
			t.Errorf("%s: %v\n%s", algorithm, err, out)
		}
	}
	if out, err := x.try("s3api", "get-object-acl", "--bucket", bucket, "--key", "y/small"); err == nil || !strings.Contains(out, "NotImplemented") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := x.try("s3", "ls", "s3://other/"); err == nil || !strings.Contains(out, "NoSuchBucket") {
		t.Errorf("%v: %s", err, out)
	}
	x.run("s3", "rm", "--recursive", "s3://default/")
	x.stored("sums/", "tree/sub/", "x/", "y/")
}

const botoScript = `
import boto3, sys, io
from botocore.exceptions import ClientError
s3 = boto3.client('s3')
s3.upload_file('big', 'default', 'boto/big')
s3.download_file('default', 'boto/big', 'big.boto')
s3.put_object(Bucket='default', Key='boto/text', Body=b'hello', ContentType='text/plain', Metadata={'a': 'b'})
o = s3.get_object(Bucket='default', Key='boto/text')
assert o['Body'].read() == b'hello' and o['ContentType'].startswith('text/plain') and o['Metadata'] == {'a': 'b'}, o
assert s3.get_object(Bucket='default', Key='boto/text', Range='bytes=1-2')['Body'].read() == b'el'
keys = [c['Key'] for p in s3.get_paginator('list_objects_v2').paginate(Bucket='default', Prefix='boto/', PaginationConfig={'PageSize': 1}) for c in p['Contents']]
assert keys == ['boto/big', 'boto/text'], keys
s3.copy_object(Bucket='default', Key='boto/copy', CopySource={'Bucket': 'default', 'Key': 'boto/text'})
assert s3.head_object(Bucket='default', Key='boto/copy')['Metadata'] == {'a': 'b'}
s3.copy({'Bucket': 'default', 'Key': 'boto/big'}, 'default', 'boto/big2')
assert s3.head_object(Bucket='default', Key='boto/big2')['ContentLength'] == 21 << 20
for code, call in (('404', lambda: s3.head_object(Bucket='default', Key='no')), ('NoSuchKey', lambda: s3.get_object(Bucket='default', Key='no')), ('NoSuchBucket', lambda: s3.list_objects_v2(Bucket='other')),
        ('PreconditionFailed', lambda: s3.put_object(Bucket='default', Key='boto/text', Body=b'', IfNoneMatch='*')), ('NotImplemented', lambda: s3.get_bucket_policy(Bucket='default'))):
    try:
        call()
        assert False, code
    except ClientError as e:
        assert e.response['Error']['Code'] == code, (code, e)
d = s3.delete_objects(Bucket='default', Delete={'Objects': [{'Key': k} for k in ('boto/big', 'boto/big2', 'boto/copy', 'no')]})
assert len(d['Deleted']) == 4 and 'Errors' not in d, d
import urllib.request
from botocore.config import Config
s3 = boto3.client('s3', config=Config(signature_version='s3v4'))
url = s3.generate_presigned_url('get_object', Params={'Bucket': 'default', 'Key': 'boto/text'}, ExpiresIn=60)
assert urllib.request.urlopen(url).read() == b'hello'
`

func TestRealClientsBoto3(t *testing.T) {
	t.Parallel()
	x := newTool(t, clientsOf(t, "python"))
	x.run("-c", botoScript)
	x.same("big", "big.boto")
	x.stored("boto/text")
}

func TestRealClientsRclone(t *testing.T) {
	t.Parallel()
	x := newTool(t, "rclone")
	x.run("copy", "big", "gpu:default/x")
	x.run("copy", "gpu:default/x/big", "got")
	x.same("big", "got/big")
	x.run("sync", "tree", "gpu:default/tree")
	x.run("check", "--size-only", "tree", "gpu:default/tree")
	x.run("check", "--download", "tree", "gpu:default/tree")
	if out := x.run("sync", "-v", "tree", "gpu:default/tree"); !strings.Contains(out, "There was nothing to transfer") {
		t.Errorf("a second sync: %s", out)
	}
	// rclone stores the time of a local file as metadata, and changes it by a copy of the file to itself.
	past := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(x.dir, "tree/sub/d"), past, past); err != nil {
		t.Fatal(err)
	}
	x.run("sync", "tree", "gpu:default/tree")
	x.run("sync", "gpu:default/tree", "tree.2")
	x.same("tree/sub/d", "tree.2/sub/d")
	if info, err := os.Stat(filepath.Join(x.dir, "tree.2/sub/d")); err != nil || !info.ModTime().Equal(past) {
		t.Errorf("the time of the file is %v, %v", info, err)
	}
	x.run("moveto", "gpu:default/x/big", "gpu:default/x/moved")
	if out := x.run("lsf", "-R", "gpu:default"); !strings.Contains(out, "x/moved") || !strings.Contains(out, "tree/sub/d") {
		t.Errorf("listed %s", out)
	}
	x.run("purge", "gpu:default/x")
	x.run("delete", "gpu:default/tree")
	if out := x.run("lsf", "-R", "--files-only", "gpu:default"); out != "" {
		t.Errorf("left: %s", out)
	}
}

func TestRealClientsS5cmd(t *testing.T) {
	t.Parallel()
	binary := os.Getenv("GPUAAS_TEST_S5CMD")
	if binary == "" {
		binary = "s5cmd"
	}
	x := newTool(t, binary)
	x.run("cp", "-p", "5", "big", "s3://default/x/big")
	x.run("cp", "s3://default/x/big", "big.2")
	x.same("big", "big.2")
	x.run("sync", "tree/", "s3://default/tree/")
	x.run("cp", "s3://default/tree/*", "tree.2/")
	x.same("tree/sub/d", "tree.2/sub/d")
	if out := x.run("ls", "s3://default/tree/"); !strings.Contains(out, "DIR  sub/") {
		t.Errorf("listed %s", out)
	}
	x.run("cp", "s3://default/x/big", "s3://default/x/copy")
	x.run("rm", "s3://default/*")
	x.stored("tree/sub/", "x/")
}
