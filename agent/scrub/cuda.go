//go:build cuda

package scrub

// The driver's own library is opened when it is needed: what links against it would
// not start on a node without one. Only functions that every driver since 2014 has.

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef int (*f_init)(unsigned int);
typedef int (*f_count)(int*);
typedef int (*f_device)(int*, int);
typedef int (*f_uuid)(unsigned char*, int);
typedef int (*f_total)(size_t*, int);
typedef int (*f_create)(void**, unsigned int, int);
typedef int (*f_destroy)(void*);
typedef int (*f_alloc)(unsigned long long*, size_t);
typedef int (*f_free)(unsigned long long);
typedef int (*f_set)(unsigned long long, unsigned int, size_t);
typedef int (*f_read)(void*, unsigned long long, size_t);
typedef int (*f_sync)(void);

static struct {
	f_init init; f_count count; f_device device; f_uuid uuid; f_total total; f_create create;
	f_destroy destroy; f_alloc alloc; f_free release; f_set set; f_read read; f_sync sync;
} cu;

static int cu_open(void) {
	void *l = dlopen("libcuda.so.1", RTLD_NOW);
	if (!l) return 1;
	cu.init = (f_init)dlsym(l, "cuInit");
	cu.count = (f_count)dlsym(l, "cuDeviceGetCount");
	cu.device = (f_device)dlsym(l, "cuDeviceGet");
	cu.uuid = (f_uuid)dlsym(l, "cuDeviceGetUuid");
	cu.total = (f_total)dlsym(l, "cuDeviceTotalMem_v2");
	cu.create = (f_create)dlsym(l, "cuCtxCreate_v2");
	cu.destroy = (f_destroy)dlsym(l, "cuCtxDestroy_v2");
	cu.alloc = (f_alloc)dlsym(l, "cuMemAlloc_v2");
	cu.release = (f_free)dlsym(l, "cuMemFree_v2");
	cu.set = (f_set)dlsym(l, "cuMemsetD32_v2");
	cu.read = (f_read)dlsym(l, "cuMemcpyDtoH_v2");
	cu.sync = (f_sync)dlsym(l, "cuCtxSynchronize");
	return !(cu.init && cu.count && cu.device && cu.uuid && cu.total && cu.create && cu.destroy && cu.alloc && cu.release && cu.set && cu.read && cu.sync);
}
static int cu_init(void) { return cu.init(0); }
static int cu_count(int *n) { return cu.count(n); }
static int cu_device(int *d, int i) { return cu.device(d, i); }
static int cu_uuid(unsigned char *u, int d) { return cu.uuid(u, d); }
static int cu_total(size_t *n, int d) { return cu.total(n, d); }
static int cu_create(void **c, int d) { return cu.create(c, 0, d); }
static int cu_destroy(void *c) { return cu.destroy(c); }
static int cu_alloc(unsigned long long *p, size_t n) { return cu.alloc(p, n); }
static int cu_free(unsigned long long p) { return cu.release(p); }
static int cu_set(unsigned long long p, unsigned int v, size_t n) { return cu.set(p, v, n); }
static int cu_read(void *to, unsigned long long p, size_t n) { return cu.read(to, p, n); }
static int cu_sync(void) { return cu.sync(); }
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

const (
	largest  = 1 << 30 // first tried; halved until nothing more is had
	smallest = 2 << 20 // the driver's own page
	pattern  = 0
	samples  = 64 // 32-bit values read back of each piece
)

func overwrite(uuid string) (r Result, err error) {
	runtime.LockOSThread() // a context belongs to a thread
	defer runtime.UnlockOSThread()
	if C.cu_open() != 0 {
		return r, errors.New("libcuda.so.1 cannot be used")
	}
	if code := C.cu_init(); code != 0 {
		return r, fmt.Errorf("cuInit: %d", code)
	}
	device, err := find(uuid)
	if err != nil {
		return r, err
	}
	var total C.size_t
	if code := C.cu_total(&total, device); code != 0 {
		return r, fmt.Errorf("asking for the size of memory: %d", code)
	}
	r.TotalMiB = int64(total) >> 20
	var held unsafe.Pointer
	if code := C.cu_create(&held, device); code != 0 {
		return r, fmt.Errorf("opening the device: %d", code)
	}
	defer C.cu_destroy(held)
	return pieces(r)
}

func find(uuid string) (C.int, error) {
	var n C.int
	if code := C.cu_count(&n); code != 0 {
		return 0, fmt.Errorf("counting devices: %d", code)
	}
	for i := range n {
		var device C.int
		var id [16]C.uchar
		if C.cu_device(&device, i) != 0 || C.cu_uuid(&id[0], device) != 0 {
			continue
		}
		b := C.GoBytes(unsafe.Pointer(&id[0]), 16)
		if fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]) == uuid {
			return device, nil
		}
	}
	return 0, fmt.Errorf("no device has UUID %s", uuid)
}

// pieces allocates all memory before it reads any: what was freed could be had
// again, and the rest never be reached.
func pieces(r Result) (Result, error) {
	type piece struct {
		at   C.ulonglong
		size C.size_t
	}
	var all []piece
	defer func() {
		for _, p := range all {
			C.cu_free(p.at)
		}
	}()
	for size := C.size_t(largest); size >= smallest; {
		var at C.ulonglong
		if C.cu_alloc(&at, size) != 0 {
			size /= 2
			continue
		}
		all = append(all, piece{at, size})
		if code := C.cu_set(at, pattern, size/4); code != 0 {
			return r, fmt.Errorf("overwriting: %d", code)
		}
		r.WrittenMiB += int64(size) >> 20
	}
	if code := C.cu_sync(); code != 0 {
		return r, fmt.Errorf("waiting for the device: %d", code)
	}
	for _, p := range all {
		for i := range C.size_t(samples) {
			var word C.uint
			offset := (p.size / samples * i) &^ 3
			if code := C.cu_read(unsafe.Pointer(&word), p.at+C.ulonglong(offset), 4); code != 0 {
				return r, fmt.Errorf("reading back: %d", code)
			}
			if word != pattern {
				return r, fmt.Errorf("memory at %d of a piece reads %#x after it was overwritten", offset, uint32(word))
			}
			r.Samples++
		}
	}
	return r, nil
}
