// Stub library that reports MPICH's version text, to test that other MPI libraries are rejected.
#include <cstring>

extern "C" [[gnu::visibility("default")]] int MPI_Get_library_version(char* text, int* length) {
  std::strcpy(text, "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n");
  *length = static_cast<int>(std::strlen(text));
  return 0;
}
