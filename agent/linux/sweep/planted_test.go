package sweep_test

import (
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPlanted is no test but the process that some plants leave behind.
//
//nolint:paralleltest // it is alone in its process
func TestPlanted(t *testing.T) {
	switch os.Getenv("PLANT") {
	case "sockets":
		fd, err := unix.InotifyInit()
		if err == nil {
			_, err = unix.InotifyAddWatch(fd, "/tmp", unix.IN_CREATE)
		}
		for network, address := range map[string]string{"unix": "@planted-" + strconv.Itoa(os.Getuid()), "tcp": "127.0.0.1:0", "tcp6": "[::1]:0"} {
			if _, listening := net.Listen(network, address); listening != nil && network != "tcp6" {
				err = listening
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	case "fuse", "stuck":
		uid := os.Getenv("PLANT_UID")
		fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
		if err == nil {
			err = unix.Mount("planted", "/mnt/"+os.Getenv("PLANT"), "fuse", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,allow_other,user_id="+uid+",group_id="+uid)
		}
		if err != nil {
			t.Fatal(err)
		}
		if os.Getenv("PLANT") == "fuse" {
			id, _ := strconv.Atoi(uid)
			if err := unix.Setuid(id); err != nil {
				t.Fatal(err)
			}
			break
		}
		answerNothing(t, fd)
	default:
		t.Skip("only run by what is planted")
	}
	time.Sleep(time.Hour)
}

// answerNothing sends the greeting of the file system and reads the next request, but does not answer. The caller
// waits uninterruptibly, as for a driver that hangs.
func answerNothing(t *testing.T, fd int) {
	t.Helper()
	request := make([]byte, 1<<20)
	if _, err := unix.Read(fd, request); err != nil {
		t.Fatal(err)
	}
	// Header: length, error, the request's number. Then version 7.31, 32 KiB each way.
	const length = 16 + 64
	reply := make([]byte, length)
	reply[0] = length
	copy(reply[8:16], request[8:16])
	reply[16], reply[20] = 7, 31
	reply[16+20+1] = 0x80 // max_write
	if _, err := unix.Write(fd, reply); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := unix.Read(fd, request); err != nil {
			t.Fatal(err)
		}
	}
}
