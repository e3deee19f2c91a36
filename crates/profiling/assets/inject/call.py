import sys

try:
    sys.remote_exec(int(sys.argv[1]), sys.argv[2])
except AttributeError:
    print("old", sys.version.split()[0])
except BaseException as error:
    print(type(error).__name__, error)
else:
    print("done")
