//go:build unix

package private_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"symbio/internal/security/private"
)

func TestFileOfAnotherUserIsNotRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file away")
	}
	file := filepath.Join(t.TempDir(), "own", "file")
	if err := errors.Join(private.Replace(file, []byte("theirs")), os.Chown(file, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if got, err := private.Read(file, 100); !errors.Is(err, private.ErrExposed) {
		t.Errorf("got %q, %v; want ErrExposed", got, err)
	}
}
