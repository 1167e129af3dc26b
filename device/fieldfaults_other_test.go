//go:build !linux

package device_test

import "errors"

func ownerChild() error { return errors.ErrUnsupported }
