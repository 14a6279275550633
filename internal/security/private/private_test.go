package private_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"symbio/internal/security/private"
)

func TestReplaceKeepsWhatItWasGivenForThisUserAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "file")
	for _, text := range []string{"one", "", "three"} {
		if err := private.Replace(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := private.Read(file, 5); err != nil || string(got) != text {
			t.Errorf("got %q, %v; want %q", got, err, text)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("beside the file stand %v, %v", left, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for path, want := range map[string]fs.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestOfManyThatCreateAFileOneDoes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	var made, there int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			err := private.Create(file, []byte("mine"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case errors.Is(err, fs.ErrExist):
				there++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made != 1 || there != 7 {
		t.Errorf("%d made it, %d found it there", made, there)
	}
}

func TestFileThatIsReplacedMeanwhileIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "file")
	if err := private.Replace(file, []byte("0")); err != nil {
		t.Fatal(err)
	}
	var replacing sync.WaitGroup
	end := make(chan struct{})
	replacing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			other := file + strconv.Itoa(i)
			if err := errors.Join(os.WriteFile(other, []byte("1"), 0o600), os.Rename(other, file)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 5000 {
		if _, err := private.Read(file, 10); err != nil {
			t.Error(err)
			break
		}
	}
	close(end)
	replacing.Wait()
}

func TestFilesOthersCanWriteAreNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(file string) error
		want  error
		unix  bool
	}{
		"nothing":                 {os.Remove, fs.ErrNotExist, false},
		"read by all":             {func(f string) error { return os.Chmod(f, 0o604) }, private.ErrExposed, true},
		"written by the group":    {func(f string) error { return os.Chmod(f, 0o620) }, private.ErrExposed, true},
		"in an open directory":    {func(f string) error { return os.Chmod(filepath.Dir(f), 0o777) }, private.ErrExposed, true},
		"in a group's directory":  {func(f string) error { return os.Chmod(filepath.Dir(f), 0o770) }, private.ErrExposed, true},
		"a directory":             {func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) }, private.ErrUnfit, true},
		"a link to a private one": {func(f string) error { return errors.Join(os.Rename(f, f+".x"), os.Symlink(f+".x", f)) }, private.ErrUnfit, true},
		"a link to nothing":       {func(f string) error { return errors.Join(os.Remove(f), os.Symlink(f+".x", f)) }, fs.ErrNotExist, true},
		"a pipe":                  {func(f string) error { return errors.Join(os.Remove(f), pipe(f)) }, private.ErrUnfit, true},
		"too long":                {func(f string) error { return os.WriteFile(f, []byte(strings.Repeat("x", 101)), 0o600) }, private.ErrUnfit, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.unix && runtime.GOOS == "windows" {
				t.Skip("Windows has neither mode bits nor pipes with names")
			}
			file := filepath.Join(t.TempDir(), "own", "file")
			if err := private.Replace(file, []byte("mine")); err != nil {
				t.Fatal(err)
			}
			if err := c.spoil(file); err != nil {
				t.Fatal(err)
			}
			got, err := private.Read(file, 100)
			if !errors.Is(err, c.want) || got != nil {
				t.Errorf("got %q, %v; want %v", got, err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), filepath.Dir(file)) {
				t.Errorf("%v does not name the file", err)
			}
		})
	}
}
