package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"symbio/security/sandbox"
)

// tries are what somebody does who wants out. Each returns nil if it worked.
func tries() map[string]func(args []string) error {
	return map[string]func([]string) error{
		"answers": answers,
		"write":   func(a []string) error { return os.WriteFile(a[0], []byte("evil"), 0o644) },
		"write through a symlink": func(a []string) error {
			return errors.Join(os.Symlink(a[0], "link"), os.WriteFile("link", []byte("evil"), 0o644))
		},
		"write through a hardlink": func(a []string) error {
			if err := os.Link(a[0], "hard"); err != nil {
				return err
			}
			return os.WriteFile("hard", []byte("evil"), 0o644)
		},
		"rename": func(a []string) error {
			return errors.Join(os.WriteFile("mine", []byte("evil"), 0o644), os.Rename("mine", a[0]))
		},
		"chmod":    func(a []string) error { return os.Chmod(a[0], 0o777) },
		"special":  special,
		"truncate": func(a []string) error { return os.Truncate(a[0], 0) },
		"see": func(a []string) error {
			_, err := os.Lstat(a[0])
			return err
		},
		"read": func(a []string) error {
			_, err := os.ReadFile(a[0])
			return err
		},
		"open for writing": func(a []string) error {
			f, err := os.OpenFile(a[0], os.O_WRONLY, 0)
			if err == nil {
				f.Close()
			}
			return err
		},
		"connect": func(a []string) error {
			c, err := net.Dial(a[0], a[1])
			if err != nil {
				return err
			}
			defer c.Close()
			c.Write([]byte("evil")) // for UDP; who accepts a connection, knows
			return nil
		},
		"mptcp": func(a []string) error {
			port, err := strconv.Atoi(a[0])
			if err != nil {
				return err
			}
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
			if err != nil {
				return err
			}
			return unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		},
		"socket": func(a []string) error {
			var n [3]int
			for i := range n {
				n[i], _ = strconv.Atoi(a[i])
			}
			_, err := unix.Socket(n[0], n[1], n[2])
			return err
		},
		"datagram through a pair": func(a []string) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			return unix.Sendto(pair[0], []byte("evil"), 0, &unix.SockaddrUnix{Name: a[0]})
		},
		"listen and connect": func([]string) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer l.Close()
			c, err := net.Dial("tcp", l.Addr().String())
			if err == nil {
				c.Close()
			}
			return err
		},
		"signal": func(a []string) error {
			pid, err := strconv.Atoi(a[0])
			if err != nil {
				return err
			}
			return syscall.Kill(pid, syscall.SIGCONT)
		},
		"signal the parent": func([]string) error { return syscall.Kill(os.Getppid(), syscall.SIGCONT) },
		"find in an environ": func(a []string) error {
			all, _ := filepath.Glob("/proc/[0-9]*/environ")
			for _, file := range append(all, fmt.Sprintf("/proc/%d/environ", os.Getppid())) {
				if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte(a[0])) {
					return nil
				}
			}
			return fs.ErrNotExist
		},
		"write to the parent's memory": func([]string) error {
			f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", os.Getppid()), os.O_RDWR, 0)
			if err == nil {
				f.Close()
			}
			return err
		},
		"subprocess": func(a []string) error { return exec.Command(a[0], a[1:]...).Run() },
		"new namespace": func([]string) error {
			c := exec.Command("/bin/true")
			c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
			return c.Run()
		},
		"start and die": func(a []string) error { // the node is killed, and cannot clean up
			b := sandbox.Probe(context.Background(), sandbox.Config{})
			p, err := sandbox.Standard(a[0])
			if err != nil {
				return err
			}
			_, err = b.Start(context.Background(), p, sandbox.Spec{Argv: []string{"/bin/sleep", "100"}, Dir: a[0]})
			return err
		},
		"io_uring": func([]string) error {
			var params [120]byte
			_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, addressOf(params[:]), 0)
			if errno != 0 {
				return errno
			}
			return nil
		},
		"many processes": func(a []string) error {
			most, err := strconv.Atoi(a[0])
			if err != nil {
				return err
			}
			for i := range most {
				if err := exec.Command("/bin/sleep", "1000").Start(); err != nil {
					return fmt.Errorf("after %d: %w", i, err)
				}
			}
			return nil
		},
		"eat": func(a []string) error { // so many MiB
			most, err := strconv.Atoi(a[0])
			if err != nil {
				return err
			}
			for range most {
				page, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
				if err != nil {
					return err
				}
				page[0] = 1
			}
			return nil
		},
		// stays is a daemon: a session of its own, nothing open, and nobody's child.
		"stays": func(a []string) error {
			c := exec.Command("/bin/sleep", a[0])
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			return c.Start()
		},
	}
}
